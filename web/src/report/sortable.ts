// Tables of the page whose rows a click on a head sorts.

import { fill } from "../lib/dom";
import { compare } from "../lib/item";
import { type Cell, type Head, type Sorting, table } from "./tables";

export interface Column<Row> extends Head {
  cell: (row: Row) => Cell;
  /** What rows are sorted by; a figure begins with the greatest. */
  value?: (row: Row) => string | number;
}

/** How each table is sorted, by the element that it is in. */
const sorted = new Map<string, { name: string; up: boolean }>();

/** Puts a table in the place of what an element has. Its rows stand as they come until a head is clicked. */
export function drawSortable<Row>(
  id: string, caption: string, columns: readonly Column<Row>[], rows: readonly Row[], foot: readonly Cell[][] = [], above: readonly Node[] = [],
): void {
  const now = sorted.get(id), by = columns.find((of) => of.name === now?.name)?.value;
  const order = [...rows];
  if (by) order.sort((a, b) => compare(by(a), by(b)) * (now?.up ? 1 : -1));
  const sorting: Sorting = { key: now?.name ?? "", up: now?.up ?? false, by: (name) => {
    const first = rows[0], value = columns.find((of) => of.name === name)?.value;
    sorted.set(id, { name, up: now?.name === name ? !now.up : !!first && typeof value?.(first) === "string" });
    drawSortable(id, caption, columns, rows, foot, above);
    const heads = document.querySelectorAll<HTMLElement>(`#${id} th button`);
    [...heads].find((head) => head.textContent === name)?.focus();
  } };
  const heads = columns.map(({ name, kind, value }): Head => ({ name, ...kind !== undefined && { kind }, ...value && { key: name } }));
  fill(id, ...above, table(caption, heads, order.map((row) => columns.map((of) => of.cell(row))), foot, sorting));
}
