// Memory that stays live from step to step, or from round to round of a loop, by line: growth, caches, and what is kept since the
// warm-up.

import { type Child, byId, fill, make } from "../lib/dom";
import { figure } from "../lib/figure";
import { bytes, count, many } from "../lib/format";
import { sumOf } from "../lib/item";
import { levelNow } from "./categories";
import { momentLink } from "./moment_link";
import type { Leak, LeakClass, Leaks } from "./sections_data";
import { type Column, drawSortable } from "./sortable";
import { data } from "./state";
import { atMoment, gpu, lineCell, ofRun, signed } from "./words";

const CLASSES: Record<LeakClass, string> = { "growing": "growing", "cache": "cache", "warm-up": "since the warm-up", "end-only": "younger" };

function isGrowing(of: Leak): boolean {
  return of.class === "growing";
}

/** Bytes per step of what grows. */
function slopeOf(of: Leak): number {
  return isGrowing(of) ? of.per_step : 0;
}

/** "step", or "round" of a loop, and where that loop is. */
function round(of: Leaks): { one: string; loop: string } {
  return of.round === null ? { one: "step", loop: "" } : { one: "round", loop: ` (rounds begin at ${of.round})` };
}

/** From one number of bytes to another, as the command prints it. */
function range(least: number, most: number): string {
  const [first, last] = [bytes(least), bytes(most)], unit = (text: string) => text.slice(text.lastIndexOf(" "));
  if (first === last) return last;
  return unit(first) === unit(last) ? `${first.slice(0, first.lastIndexOf(" "))} to ${last}` : `${first} to ${last}`;
}

/** Whether anything grows. */
function verdict(of: Leaks): HTMLElement {
  const needed = of.warm_up + of.least + 1, growing = of.rows.filter(isGrowing), { one, loop } = round(of);
  if (of.steps < needed) {
    const ended = many(of.steps, `${one} has`, `${one}s have`);
    return make("p", { id: "verdict", text: `${ended} ended${loop}; growth is reported from ${count(needed)} ${one}s on.` });
  }
  if (!growing.length) return make("p", { id: "verdict", class: "exact", text: loop ? `No line grows over the rounds${loop}.` : "No line grows." });
  const sum = (at: 0 | 1) => sumOf(growing, (row) => row.per_step_range[at]);
  return make("p", { id: "verdict", class: "failed", text: `${many(growing.length, "line grows", "lines grow")} by ${range(sum(0), sum(1))} per ${one}${loop}.` });
}

function holder(of: Leaks): Child {
  if (!of.holder) return null;
  const [line, blocks, held] = of.holder;
  return make("p", {}, ["Probably kept by the tensor of ", lineCell(line), ` (${many(blocks, "block", "blocks")}), the newest that remains of each ${round(of).one}: `,
    "its graph keeps ", figure(held), " of the other lines. Use .item() or .detach() to keep only the value."]);
}

function steps({ steps: [oldest, newest] }: Leak): string {
  if (newest === null) return "…";
  return oldest === newest ? count(newest) : `${oldest === null ? "…" : count(oldest)}–${count(newest)}`;
}

const columnsOf = (one: string): Column<Leak>[] => [
  { name: "Line", kind: "path", value: (row) => row.line, cell: lineCell },
  { name: "Bytes", kind: "number", value: (row) => row.bytes, cell: (row) => figure(row.bytes) },
  { name: `Per ${one}`, kind: "number", value: slopeOf,
    cell: (row) => isGrowing(row) ? make("span", { text: signed(row.per_step), "data-bytes": row.per_step }) : "" },
  { name: "Kind", value: (row) => row.class ?? "", cell: (row) => row.class ? CLASSES[row.class] : "" },
  { name: "Blocks", kind: "number", value: (row) => row.blocks, cell: (row) => count(row.blocks) },
  { name: "Survived", kind: "number", value: (row) => row.survived, cell: (row) => figure(row.survived) },
  { name: `In ${one}s`, kind: "number", value: (row) => row.steps[1] ?? 0, cell: steps },
  { name: "Function", value: (row) => row.function, cell: (row) => row.function },
  { name: "Source", kind: "code", cell: (row) => row.source },
];

export function drawLeaks(): void {
  const of = data.sections.leaks;
  byId("leaks-section").hidden = !of;
  if (!of) return;
  if (!of.steps) {
    fill("leaks-said", make("p", { id: "verdict", text: "The capture has no steps, and no loop of the program keeps memory from round to round, so growth is not known: see gpumem.step()." }));
    byId("leaks-all").hidden = true;
    return;
  }
  const { one } = round(of), all = columnsOf(one);
  fill("leaks-said", verdict(of), holder(of),
    make("p", { class: "faint" }, [`At the end of ${one} `, momentLink(`${count(of.steps)} (${atMoment(of)})`, of.seq, null), "."]));
  byId("leaks-all", HTMLDetailsElement).open = of.rows.some(isGrowing);
  const devices = data.devices.length > 1;
  const columns = devices ? [...all, { name: "Device", value: (row: Leak) => row.device ?? -1, cell: (row: Leak) => gpu(row.device) }] : all;
  const [more, size, blocks] = of.others;
  const row = (name: string, size: number, blocks: number) => [name, figure(size), "", "", count(blocks), "", "", "", "", ...devices ? [""] : []];
  const foot = more ? [row(many(more, "more line", "more lines"), size, blocks)] : [];
  foot.push(row("together", of.bytes, sumOf(of.rows, (each) => each.blocks) + blocks));
  drawSortable("leaks", `Live at the end of the last ${one}, ${levelNow()}${ofRun()}; survived: for ${count(of.least)} ${one}s or more`, columns, of.rows, foot);
}
