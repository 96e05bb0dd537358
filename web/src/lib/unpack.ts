// Numbers that a page contains as base64 of zlib data (analyzer/src/packed.rs).

export async function inflated(text: string): Promise<Uint8Array> {
  // A loop, because from() with a function takes a second with 10,000 ranks.
  const letters = atob(text), packed = new Uint8Array(letters.length);
  for (let place = 0; place < letters.length; place++) packed[place] = letters.charCodeAt(place);
  const whole = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(whole).arrayBuffer());
}

/** Sums of smaller numbers are exact. */
const EXACT = 2 ** 51;

/** Numbers in groups of seven bits, the lowest first. */
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

  /**
   * Addresses and handles, each as the difference from the one before. They are added exactly, and rounded once if
   * one has more than 53 bits.
   */
  sums(length: number): Float64Array {
    let small = 0, large: bigint | null = null;
    return Float64Array.from({ length }, () => {
      const start = this.at, step = this.signed();
      if (large === null && Math.abs(small) < EXACT && Math.abs(step) < EXACT) return (small += step);
      this.at = start;
      large = BigInt.asUintN(64, (large ?? BigInt(small)) + this.signedLarge());
      const rounded = Number(large);
      if (rounded < EXACT) [small, large] = [rounded, null];
      return rounded;
    });
  }

  private signedLarge(): bigint {
    let value = 0n, shift = 0n, byte: number | undefined;
    do {
      byte = this.from[this.at++];
      if (byte === undefined) throw new RangeError("the numbers end too early");
      value |= BigInt(byte & 0x7f) << shift;
      shift += 7n;
    } while (byte & 0x80);
    return value & 1n ? -((value + 1n) >> 1n) : value >> 1n;
  }
}
