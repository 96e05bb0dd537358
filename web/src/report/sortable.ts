// Tables whose rows are sorted by a click on a heading.

import { fill } from "../lib/dom";
import { compare } from "../lib/item";
import { type Cell, type Head, type Sorting, table } from "./tables";

export interface Column<Row> extends Head {
  cell: (row: Row) => Cell;
  /** The value by which rows are sorted; figures are sorted in descending order first. */
  value?: (row: Row) => string | number;
}

/** The sorting of each table, by the id of its element. */
const sorted = new Map<string, { name: string; up: boolean }>();

/** Replaces the contents of an element by a table. Its rows are in the given order until a heading is clicked. */
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
