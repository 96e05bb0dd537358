// What the page carries: JSON, and the cells of the heatmap, each as base64 of zlib's bytes.

export async function inflated(text: string): Promise<Uint8Array> {
  const letters = atob(text), packed = new Uint8Array(letters.length);
  for (let place = 0; place < letters.length; place++) packed[place] = letters.charCodeAt(place);
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
        let value = 0, scale = 1, byte: number | undefined;
        do {
          byte = packed[place++];
          if (byte === undefined) throw new RangeError("the cells end too early");
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
