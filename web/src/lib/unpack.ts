// Numbers that a page carries as base64 of zlib's bytes (analyzer/src/packed.rs).

export async function inflated(text: string): Promise<Uint8Array> {
  // A loop: from() with a function takes a second where there are 10,000 ranks.
  const letters = atob(text), packed = new Uint8Array(letters.length);
  for (let place = 0; place < letters.length; place++) packed[place] = letters.charCodeAt(place);
  const whole = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(whole).arrayBuffer());
}

/** Numbers in groups of seven bits, the least first. */
export class Numbers {
  private at = 0;

  constructor(private readonly from: Uint8Array) {}

  next(): number {
    let value = 0, scale = 1, byte: number | undefined;
    do {
      byte = this.from[this.at++];
      if (byte === undefined) throw new RangeError("the numbers end too early");
      value += (byte & 0x7f) * scale;
      scale *= 128;
    } while (byte & 0x80);
    return value;
  }

  signed(): number {
    const value = this.next();
    return value % 2 ? -(value + 1) / 2 : value / 2;
  }
}
