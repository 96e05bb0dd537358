// The lines that own the memory at the shown point in time.

import { fill, make, valueOf } from "../lib/dom";
import { bytes, count, many, percent, time } from "../lib/format";
import { compare, item, sumOf } from "../lib/item";
import type { Level, Owner } from "./data";
import { called, data, device, level, levelWord, moment, state } from "./state";
import { type Cell, type Head, table } from "./tables";
import { apart } from "./words";

const MOST_ROWS = 500;

interface Row extends Owner {
  phase: string;
  bytes: number;
  blocks: number;
}

type Key = "line" | "function" | "phase" | "source" | "bytes" | "blocks";

const HEADS: (Head & { key?: Key })[] = [{ name: "Line", key: "line", kind: "path" }, { name: "Function", key: "function" },
  { name: "Phase", key: "phase" }, { name: "Source", key: "source", kind: "code" }, { name: "Bytes", key: "bytes", kind: "number" },
  { name: "Share", kind: "number" }, { name: "Blocks", key: "blocks", kind: "number" }];

const sorting = { key: "bytes" as Key, up: false };
let filter = "";

function sortBy(key: string): void {
  const head = HEADS.filter((of) => of.key !== undefined).findIndex((of) => of.key === key);
  const to = HEADS.find((of) => of.key === key)?.key;
  if (!to) return;
  sorting.up = sorting.key === to ? !sorting.up : !["bytes", "blocks"].includes(to);
  sorting.key = to;
  drawLines();
  document.querySelectorAll<HTMLElement>("#lines th button")[head]?.focus();
}

/**
 * Rows by owner; with the stacks that are not in the page they add up to the level's own figure.
 */
function lineRows(now: Level): Row[] {
  const rows = new Map<number, Row>();
  for (const [stack, size, blocks] of now.stacks) {
    const number = item(data.stacks.stacks, stack)[1], owner = item(data.stacks.owners, number);
    const row = rows.get(number) ?? { ...owner, phase: owner.phase ?? "", bytes: 0, blocks: 0 };
    row.bytes += size;
    row.blocks += blocks;
    rows.set(number, row);
  }
  return [...rows.values()];
}

function isFound(row: Row): boolean {
  return [row.line, row.path, row.function, row.source, row.phase].some((of) => of.toLowerCase().includes(filter));
}

function order(a: Row, b: Row): number {
  const by = compare(a[sorting.key], b[sorting.key]) || compare(a.line, b.line);
  return sorting.up ? by : -by;
}

export function drawLines(): void {
  const now = level(), then = moment();
  if (!now || !then) {
    fill("lines", make("p", { text: "Nothing was live." }));
    return;
  }
  const rows = lineRows(now).filter(isFound).sort(order);
  const figures = (size: number, blocks: number) => [bytes(size), percent(size, now.bytes), count(blocks)];
  const shown = rows.slice(0, MOST_ROWS).map((row): Cell[] =>
    [make("span", { text: row.line, title: row.path || undefined }), row.function, row.phase, row.source, ...figures(row.bytes, row.blocks)]);
  const foot: Cell[][] = [];
  const sums = (name: string, size: number, blocks: number) => { foot.push([name, "", "", "", ...figures(size, blocks)]); };
  const rest = rows.slice(MOST_ROWS);
  if (rest.length) sums(many(rest.length, "more line", "more lines"), sumOf(rest, (row) => row.bytes), sumOf(rest, (row) => row.blocks));
  let all = sumOf(rows, (row) => row.bytes), blocks = sumOf(rows, (row) => row.blocks);
  const [others, otherBytes, otherBlocks] = now.others;
  if (others && !filter) {
    sums(`${many(others, "other stack", "other stacks")}, not in this page`, otherBytes, otherBlocks);
    all += otherBytes;
    blocks += otherBlocks;
  }
  sums(filter ? "together, of those found" : "together", all, blocks);
  const caption = `${device().title}, ${levelWord(now)}, ${time(then.time, data.to - data.from)}, event ${count(then.seq)} (${called(then)}${state.asked ? `, ${apart(state.asked, then)} than requested` : ""})`;
  fill("lines", table(caption, HEADS, shown, foot, { ...sorting, by: sortBy }));
}

export function startLines(): void {
  const input = make("input", { type: "search", id: "filter", on: { input: (event) => {
    filter = valueOf(event).trim().toLowerCase();
    drawLines();
  } } });
  fill("lines-bar", make("label", {}, ["Filter lines", input]));
}
