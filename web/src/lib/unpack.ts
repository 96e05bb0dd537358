// Numbers that a page carries as base64 of zlib's bytes (analyzer/src/packed.rs).

export async function inflated(text: string): Promise<Uint8Array> {
  const packed = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const whole = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(whole).arrayBuffer());
}

/** Numbers in groups of seven bits, the least first. */
export class Numbers {
  private at = 0;

  constructor(private readonly from: Uint8Array) {}

  next(): number {
    let value = 0, scale = 1, byte: number;
    do {
      byte = this.from[this.at++] ?? 0;
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
