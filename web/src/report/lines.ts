// The lines that own the memory at the shown point in time.

import { fill, make, valueOf } from "../lib/dom";
import { bytes, count, many, percent, time } from "../lib/format";
import { compare, item, sumOf } from "../lib/item";
import type { Level, Owner, Part } from "./data";
import { called, data, device, level, levelWord, moment, state } from "./state";
import { type Cell, type Head, table } from "./tables";
import { apart } from "./words";

const MOST_ROWS = 500;

interface Figure {
  bytes: number;
  blocks: number;
}

interface Row extends Owner, Figure {
  /** The phase of all its parts; empty if they differ. */
  phase: string;
  /** The largest first. */
  parts: (Part & Figure)[];
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

/** Adds to the figure of a key. */
function add<K, V extends Figure>(to: Map<K, V>, key: K, made: () => V, bytes: number, blocks: number): V {
  const of = to.get(key) ?? made();
  of.bytes += bytes;
  of.blocks += blocks;
  to.set(key, of);
  return of;
}

/**
 * Rows by line; with the stacks that are not in the page they add up to the level's own figure.
 */
function lineRows(now: Level): Row[] {
  const rows = new Map<number, Row>(), parts = new Map<Row, Map<number, Part & Figure>>();
  for (const [stack, size, blocks] of now.stacks) {
    const [, owner, part] = item(data.stacks.stacks, stack);
    const row = add(rows, owner, () => ({ ...item(data.stacks.owners, owner), phase: "", parts: [], bytes: 0, blocks: 0 }), size, blocks);
    const of = parts.get(row) ?? new Map<number, Part & Figure>();
    add(of, part, () => ({ ...item(data.stacks.parts, part), bytes: 0, blocks: 0 }), size, blocks);
    parts.set(row, of);
  }
  for (const [row, of] of parts) {
    row.parts = [...of.values()].sort((a, b) => b.bytes - a.bytes);
    const phases = new Set(row.parts.map(({ phase }) => phase ?? ""));
    if (phases.size === 1) [row.phase = ""] = phases;
  }
  return [...rows.values()];
}

/** The label of a line, with what all of it is a part of. */
function nameOf(row: Row): string {
  return row.parts.length === 1 ? `${row.line} ${item(row.parts, 0).note}`.trim() : row.line;
}

function isFound(row: Row): boolean {
  const parts = row.parts.flatMap(({ note, phase }) => [note, phase ?? ""]);
  return [row.line, row.path, row.function, row.source, ...parts].some((of) => of.toLowerCase().includes(filter));
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
  const shown = rows.slice(0, MOST_ROWS).flatMap((row): Cell[][] => [
    [make("span", { text: nameOf(row), title: row.path || undefined }), row.function, row.phase, row.source, ...figures(row.bytes, row.blocks)],
    ...(row.parts.length > 1 ? row.parts : []).map((of): Cell[] =>
      [make("span", { class: "part", text: of.note }), "", of.phase ?? "", "", ...figures(of.bytes, of.blocks)]),
  ]);
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
