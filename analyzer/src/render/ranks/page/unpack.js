// What the page carries: JSON, and the cells of the heatmap.

function fromBase64(text) {
  const letters = atob(text), out = new Uint8Array(letters.length);
  for (let i = 0; i < letters.length; i++) out[i] = letters.charCodeAt(i);
  return out;
}

async function inflated(text) {
  const whole = new Blob([fromBase64(text)]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(whole).arrayBuffer());
}

// Cells by part, rank and column: 0 is nothing, else 1 more than the units of bytes. Each row's numbers are written by how
// much they differ from the one before.
function unpackCells(packed, parts, ranks, columns) {
  const all = [];
  let at = 0;
  for (let part = 0; part < parts; part++) {
    const cells = new Float64Array(ranks * columns);
    for (let rank = 0; rank < ranks; rank++) {
      let now = 0;
      for (let column = 0; column < columns; column++) {
        let value = 0, scale = 1, byte;
        do {
          byte = packed[at++];
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
