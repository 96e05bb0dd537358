// What the page carries: JSON, and the cells of the heatmap, each as base64 of zlib's bytes.

import { item } from "../lib/item";

export async function inflated(text: string): Promise<Uint8Array> {
  const packed = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const whole = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(whole).arrayBuffer());
}

/**
 * Cells by part, rank and column: 0 is nothing, else 1 more than the units of bytes. Each row's numbers are written by how much
 * they differ from the one before (analyzer/src/render/ranks/page/cells.rs).
 */
export function unpackCells(packed: Uint8Array, parts: number, ranks: number, columns: number): Float64Array[] {
  const all: Float64Array[] = [];
  let place = 0;
  for (let part = 0; part < parts; part++) {
    const cells = new Float64Array(ranks * columns);
    for (let rank = 0; rank < ranks; rank++) {
      let now = 0;
      for (let column = 0; column < columns; column++) {
        let value = 0, scale = 1, byte: number;
        do {
          byte = item(packed, place++);
          value += (byte & 0x7f) * scale;
          scale *= 128;
        } while (byte & 0x80);
        now += value % 2 ? -(value + 1) / 2 : value / 2;
        cells[rank * columns + column] = now;
      }
    }
    all.push(cells);
  }
  return all;
}
