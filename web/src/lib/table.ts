// A table without a caption: its headings, each with the class of its column, and its rows.

import { type Child, make } from "./dom";

export type Head = readonly [text: string, kind?: string];

export function plainTable(heads: readonly Head[], rows: readonly (readonly Child[])[]): HTMLTableElement {
  return make("table", {}, [
    make("thead", {}, [make("tr", {}, heads.map(([text, kind]) => make("th", { scope: "col", class: kind, text })))]),
    make("tbody", {}, rows.map((cells) =>
      make("tr", {}, cells.map((cell, index) => make("td", { class: heads[index]?.[1] }, [cell]))))),
  ]);
}
