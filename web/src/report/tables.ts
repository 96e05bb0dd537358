// Tables of the page: headings that sort, rows, and a footer with sums.

import { type Child, make } from "../lib/dom";

export interface Head {
  name: string;
  kind?: string;
  /** The key by which rows are sorted if the heading is clicked. */
  key?: string;
}

export type Cell = Node | string | undefined;

/** The sort key of a table, and the handler of a click on a heading. */
export interface Sorting {
  key: string;
  up: boolean;
  by: (key: string) => void;
}

export function table(caption: string, heads: readonly Head[], rows: readonly Cell[][], foot: readonly Cell[][] = [], sorting?: Sorting): HTMLTableElement {
  const row = (cells: readonly Cell[]) =>
    make("tr", {}, cells.map((cell, index) => make("td", { class: heads[index]?.kind }, [cell])));
  return make("table", {}, [
    make("caption", { text: caption }),
    make("thead", {}, [make("tr", {}, heads.map((head) => headCell(head, sorting)))]),
    make("tbody", {}, rows.map(row)),
    foot.length > 0 && make("tfoot", {}, foot.map(row)),
  ]);
}

/** A heading; one with a key is a button that sorts. */
export function headCell({ name, kind, key }: Head, sorting: Sorting | undefined): HTMLTableCellElement {
  const attributes = { scope: "col", class: kind };
  if (key === undefined || !sorting) return make("th", attributes, [name]);
  const sorted = key === sorting.key ? (sorting.up ? "ascending" : "descending") : "none";
  const button: Child = make("button", { type: "button", text: name, on: { click: () => { sorting.by(key); } } });
  return make("th", { ...attributes, "aria-sort": sorted }, [button]);
}
