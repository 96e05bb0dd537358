// The cells of the heatmap.

import { Numbers } from "../lib/unpack";

/**
 * Cells by part, rank and column: 0 is nothing, else 1 more than the number of units. Each row's numbers are stored
 * as differences from the one before (analyzer/src/render/ranks/page/cells.rs).
 */
export function unpackCells(packed: Uint8Array, parts: number, ranks: number, columns: number): Float64Array[] {
  const all: Float64Array[] = [];
  const read = new Numbers(packed);
  for (let part = 0; part < parts; part++) {
    const cells = new Float64Array(ranks * columns);
    for (let rank = 0; rank < ranks; rank++) {
      let now = 0;
      for (let column = 0; column < columns; column++) {
        now += read.signed();
        cells[rank * columns + column] = now;
      }
    }
    all.push(cells);
  }
  return all;
}
