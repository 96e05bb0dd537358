// The pinned block: its size, its lifetime, and the calls that allocated it.

import { byId, fill, make } from "../lib/dom";
import { bytes, count, many, time } from "../lib/format";
import { item } from "../lib/item";
import { life } from "./blocks";
import { enlarge } from "./scale";
import { type History, NEVER } from "./history";
import { calls } from "./stack_words";
import type { Owner } from "./data";
import { data, history, pin, state } from "./state";

/** Frames of a stack without those that only forward a call, newest first, each with the text of its line. */
function frames(stack: number): HTMLLIElement[] {
  return calls(stack).map(([name, text]) => make("li", {}, [name, text ? make("code", { text }) : null]));
}

function ownerOf(stack: number): Owner {
  return item(data.stacks.owners, item(data.stacks.stacks, stack)[1]);
}

function lineOf({ path, line, function: called }: Owner): string {
  return `${path || line} ${called}`.trim();
}

/** The line that freed a block. */
function freedBy(of: History, block: number): string {
  const stack = item(of.freedBy, block);
  if (stack >= 0) return lineOf(ownerOf(stack));
  return of.freedBy.some((other) => other >= 0) ? "not in this page" : "not recorded; GPUMEM_FREE_STACKS=on records it";
}

function rows(of: History, block: number): [string, string][] {
  const size = item(of.bytes, block), slack = item(of.slack, block), stack = item(of.stacks, block);
  const { seqs, times } = of.ticks, category = item(of.categories, block), made = item(of.made, block), ended = item(of.ended, block);
  const exact = (value: number) => `${bytes(value)} (${many(value, "byte", "bytes")})`;
  const at = (tick: number) => `${time(item(times, tick), 0)}, event ${count(item(seqs, tick))}`;
  const found: [string, string][] = [["Size", exact(size)]];
  if (slack > 0) found.push(["Requested", `${exact(size - slack)}, rounded up by ${bytes(slack)}`]);
  if (category >= 0) found.push(["Category", item(data.categories, category)]);
  if (stack >= 0) {
    const owner = ownerOf(stack), module = item(data.stacks.module_of, stack);
    found.push(["Line", lineOf(owner)]);
    if (owner.source) found.push(["Source", owner.source]);
    const part = item(data.stacks.parts, item(data.stacks.stacks, stack)[2]);
    if (part.note) found.push(["Allocated in", part.note.replace(/^\(|\)$/g, "")]);
    if (part.phase) found.push(["Phase", part.phase]);
    if (module) found.push(["Module", item(data.stacks.modules, module - 1)]);
  }
  found.push(["Address", `0x${item(of.addresses, block).toString(16)}`], ["Allocated", at(made)]);
  found.push(["Freed", ended === NEVER ? "not in this run" : at(ended)]);
  if (ended !== NEVER) found.push(["Freed by", freedBy(of, block)]);
  const released = item(of.released, block);
  if (released !== ended) found.push(["Waited for other streams", released === NEVER ? "to the end of the run" : `until ${at(released)}`]);
  return found;
}

export function drawPinned(): void {
  const of = history(), block = state.pinned, box = byId("pinned");
  box.hidden = !of || block === null || state.picture !== "blocks";
  if (!of || block === null || box.hidden) {
    box.replaceChildren();
    return;
  }
  const stack = item(of.stacks, block), freed = item(of.freedBy, block);
  fill("pinned",
    make("h3", { text: `Pinned: ${bytes(item(of.bytes, block))}, ${life(of, block)}` }),
    make("dl", {}, rows(of, block).flatMap(([name, value]) => [make("dt", { text: name }), make("dd", { text: value })])),
    stack < 0 ? make("p", { class: "faint", text: "Its stack is not in this page." })
      : make("details", { open: true }, [make("summary", { text: "Stack, the newest call first" }), make("ol", {}, frames(stack))]),
    freed < 0 ? null : make("details", { id: "freed-by" }, [make("summary", { text: "Stack that freed it" }), make("ol", {}, frames(freed))]),
    make("div", { class: "bar" }, [make("button", { type: "button", id: "enlarge", text: "Enlarge in the chart", on: { click: enlarge } }),
      make("button", { type: "button", id: "unpin", text: "Unpin", on: { click: () => { pin(null); } } })]));
}
