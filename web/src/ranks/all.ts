// The table of all ranks, which can be sorted and searched. Only visible rows are in the page.

import { byId, fill, make, say, valueOf } from "../lib/dom";
import { bytes, count, many } from "../lib/format";
import { compare, item } from "../lib/item";
import type { Part } from "./data";
import { PARTS, data, ended, host, isOutlying, order, peaks, place, rankOf } from "./job";
import { choose, state } from "./state";

/** The height of a row, and the number of rows above and below the visible ones. */
const LINE = 28, BESIDE = 12;
/** The height while the box has none. */
const FIRST_HIGH = 460;

interface Column {
  name: string;
  kind: "" | "number";
  of: (index: number) => string | number;
  text?: (value: number) => string;
}

const COLUMNS: readonly Column[] = [
  { name: "rank", kind: "number", of: rankOf },
  { name: "machine", kind: "", of: host },
  { name: "GPU", kind: "number", of: (index) => item(data.ranks.device, index) ?? "" },
  { name: "place", kind: "", of: place },
  ...PARTS.map(([, name], part): Column => ({ name, kind: "number", of: (index) => item(peaks(part as Part), index), text: bytes })),
  { name: "steps", kind: "number", of: (index) => item(data.ranks.steps, index), text: count },
  { name: "ended", kind: "", of: ended },
];
const sorting = { column: 0, up: true };
let sorted: number[] = [], sought = "";

function sortRanks(): void {
  const of = item(COLUMNS, sorting.column).of, way = sorting.up ? 1 : -1;
  const isFound = (index: number) => [String(rankOf(index)), host(index), place(index), ended(index)]
    .some((text) => text.toLowerCase().includes(sought));
  const keys = order.filter((index) => !sought || isFound(index)).map((index) => ({ index, key: of(index), rank: rankOf(index) }));
  keys.sort((a, b) => way * compare(a.key, b.key) || a.rank - b.rank);
  sorted = keys.map(({ index }) => index);
}

function sortBy(column: number): void {
  sorting.up = sorting.column === column ? !sorting.up : item(COLUMNS, column).kind !== "number" || column === 0;
  sorting.column = column;
  sortRanks();
  drawRanks();
}

export function startRanks(): void {
  const box = byId("ranks");
  const find = make("input", { type: "search", id: "find", on: { input: (event) => {
    sought = valueOf(event).trim().toLowerCase();
    box.scrollTop = 0;
    sortRanks();
    drawRanks();
  } } });
  fill("ranks-bar", make("label", {}, ["Find a rank, machine, place or end", find]), make("span", { class: "faint", id: "found" }));
  box.addEventListener("scroll", drawRanks);
  sortRanks();
}

export function drawRanks(): void {
  const box = byId("ranks"), room = Math.ceil((box.clientHeight || FIRST_HIGH) / LINE);
  const from = Math.max(0, Math.floor(box.scrollTop / LINE) - BESIDE), to = Math.min(sorted.length, from + room + 2 * BESIDE);
  const focus = document.activeElement instanceof HTMLElement ? document.activeElement.dataset["column"] : undefined;
  const heads = COLUMNS.map(({ name, kind }, at) => {
    const way = at === sorting.column ? (sorting.up ? "ascending" : "descending") : "none";
    return make("th", { scope: "col", class: kind, "aria-sort": way },
      [make("button", { type: "button", text: name, "data-column": at, on: { click: () => { sortBy(at); } } })]);
  });
  const gap = (rows: number) => rows > 0 && make("tr", { class: "gap", "aria-hidden": "true" },
    [make("td", { colspan: COLUMNS.length, style: { height: `${rows * LINE}px` } })]);
  const rows = sorted.slice(from, to).map((index, at) => row(index, from + at));
  fill("ranks", make("table", { "aria-rowcount": sorted.length + 1 }, [make("thead", {}, [make("tr", {}, heads)]),
    make("tbody", {}, [gap(from), ...rows, gap(sorted.length - to)])]));
  say("found", `${many(sorted.length, "rank", "ranks")}. A click on a row pins the rank.`);
  if (focus !== undefined) document.querySelector<HTMLElement>(`[data-column="${focus}"]`)?.focus();
}

function row(index: number, place: number): HTMLTableRowElement {
  const kinds = `row${isOutlying(index) ? " differs" : ""}${index === state.pinned ? " chosen" : ""}`;
  return make("tr", { class: kinds, "aria-rowindex": place + 2, on: { click: () => { choose("pinned", index); } } },
    COLUMNS.map(({ kind, of, text }) => {
      const value = of(index);
      return make("td", { class: kind, text: text && typeof value === "number" ? text(value) : value,
        title: text === bytes && typeof value === "number" ? `${count(value)} bytes` : undefined });
    }));
}
