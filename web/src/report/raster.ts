// Blocks over their lives as a picture: each is a band as high as its bytes, from when it was allocated to when it was freed,
// above those that are older. Pixels are worked out column by column, so that a frame takes as long however many blocks there
// are: in each column stands the moment at which the level held most in its time.

import type { History } from "./history";
import { Live } from "./live";

/** What stands in no block's pixel. */
export const NOTHING = -1;
/** What is not in the page: the part of the level that no block of it explains. */
export const REST = -2;

/** The picture: which block each pixel is of. */
export interface Raster {
  readonly of: History;
  readonly width: number;
  readonly height: number;
  /** Column by column, each from its top. */
  readonly blocks: Int32Array;
  /** Bytes at the foot and at the top edge. */
  readonly low: number;
  readonly most: number;
  /** The tick that each column shows; -1: before the first. */
  readonly ticks: Int32Array;
}

/** The ticks at which the columns of a picture hold most. `edges`: the last tick of what comes before each column, and of the last one. */
function columnTicks(history: History, edges: Int32Array): Int32Array {
  const { totals } = history.ticks;
  const out = new Int32Array(edges.length - 1);
  let at = edges[0] ?? -1;
  for (let x = 0; x < out.length; x++) {
    const end = Math.max(at, edges[x + 1] ?? -1);
    // What came before the column is still there where nothing in it is more, or where it is all there is.
    let best = at, most = at < 0 ? -1 : totals[at] ?? 0;
    for (let tick = at + 1; tick <= end; tick++) {
      const total = totals[tick] ?? 0;
      if (total > most) [best, most] = [tick, total];
    }
    out[x] = best;
    at = Math.max(at, end);
  }
  return out;
}

/** The picture of a stretch. Columns that a picture before has too are taken from it, as where a view was moved a little. `scale`: the bytes
 at its foot and at its top; null: as the stretch has them. */
export function raster(history: History, edges: Int32Array, height: number, before: Raster | null, scale: readonly [number, number] | null): Raster {
  const ticks = columnTicks(history, edges), width = ticks.length;
  const { totals, kept } = history.ticks;
  const low = scale?.[0] ?? 0;
  let most = scale?.[1] ?? 1;
  if (!scale) for (const tick of ticks) if (tick >= 0) most = Math.max(most, totals[tick] ?? 0);
  const blocks = new Int32Array(width * height).fill(NOTHING);
  const known = before?.of === history && before.most === most && before.low === low && before.height === height ? before : null;
  const live = new Live(history, blocks, height, low, most);
  let earlier = -1, same = 0;
  for (let x = 0; x < width; x++) {
    const tick = ticks[x] ?? -1, column = x * height;
    if (tick < 0) continue;
    if (tick === earlier) {
      blocks.copyWithin(column, column - height, column);
      continue;
    }
    earlier = tick;
    if (known) {
      while (same < known.width && (known.ticks[same] ?? 0) < tick) same++;
      if (same < known.width && known.ticks[same] === tick) {
        blocks.set(known.blocks.subarray(same * height, (same + 1) * height), column);
        continue;
      }
    }
    live.goTo(tick);
    live.draw(column, (totals[tick] ?? 0) - (kept[tick] ?? 0), REST);
  }
  return { of: history, width, height, blocks, low, most, ticks };
}

/** The colours of a picture's pixels, as 0xAABBGGRR in 32 bits with a sign: of each block, of what is not in the page, and of nothing. */
export interface Colours {
  pixels: Int32Array;
  /** The same, darker: of the edges of blocks. */
  dark: Int32Array;
  others: number;
  othersDark: number;
  back: number;
}

const MARK = 0xffff5cd6 | 0;

/** Half of a colour and half of another. */
function between(one: number, other: number): number {
  return 0xff000000 | ((one >>> 1) & 0x7f7f7f) + ((other >>> 1) & 0x7f7f7f);
}

/** Puts the colours of a picture into pixels, which lie row by row. `found`: blocks that a search found, which are outlined; others fade. */
export function paintInto(out: Int32Array, of: Raster, colours: Colours, marked: number | null, found: Uint8Array | null): void {
  const { width, height, blocks } = of, { pixels, dark, others, othersDark, back } = colours;
  for (let x = 0; x < width; x++) {
    const toLeft = x > 0 ? height : 0, toRight = x + 1 < width ? height : 0, column = x * height, foot = column + height - 1;
    let above = blocks[column] ?? NOTHING;
    for (let at = column, to = x; at <= foot; at++, to += width) {
      const block = blocks[at] ?? NOTHING;
      if (block === NOTHING) {
        out[to] = back;
      } else if (block === REST) {
        out[to] = (x + at - column) % 6 < 2 ? othersDark : others;
      } else if (block === marked) {
        out[to] = MARK;
      } else {
        // A line between a block and the one above it or before it, where both are large enough to be told apart.
        const isEdge = (above !== block && (at === foot || blocks[at + 1] === block)) || (blocks[at - toLeft] !== block && blocks[at + toRight] === block);
        out[to] = (isEdge ? dark[block] : pixels[block]) ?? others;
      }
      above = block;
    }
  }
  if (found) outline(out, of, colours.back, marked, found);
}

/** Outlines what was found, and fades all else. */
function outline(out: Int32Array, { width, height, blocks }: Raster, back: number, marked: number | null, found: Uint8Array): void {
  for (let x = 0; x < width; x++) {
    const column = x * height, toLeft = x > 0 ? height : 0, toRight = x + 1 < width ? height : 0;
    for (let y = 0, to = x; y < height; y++, to += width) {
      const at = column + y, block = blocks[at] ?? NOTHING;
      if (block === NOTHING || block === marked) continue;
      if (found[block] !== 1) out[to] = between(out[to] ?? 0, back);
      else if (y === 0 || blocks[at - 1] !== block || y + 1 === height || blocks[at + 1] !== block || blocks[at - toLeft] !== block || blocks[at + toRight] !== block) out[to] = MARK;
    }
  }
}
