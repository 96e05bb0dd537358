// Blocks over their lifetimes as a picture: each is a band whose height is its bytes, from its allocation to its free,
// above older ones. Pixels are computed column by column, so the time of a frame does not depend on the number of
// blocks. Each column shows the point in its time interval at which the level held most.

import type { History } from "./history";
import { Live } from "./live";

/** The value of a pixel without a block. */
export const NOTHING = -1;
/** The part of the level that no block in the page explains. */
export const REST = -2;

/** The picture: the block of each pixel. */
export interface Raster {
  readonly of: History;
  readonly width: number;
  readonly height: number;
  /** Column by column, each from its top. */
  readonly blocks: Int32Array;
  /** Bytes at the bottom and at the top edge. */
  readonly low: number;
  readonly most: number;
  /** The tick that each column shows; -1: before the first. */
  readonly ticks: Int32Array;
}

/**
 * The ticks at which the columns of a picture hold most. `edges`: the last tick before each column, and the last one
 * of the last column.
 */
function columnTicks(history: History, edges: Int32Array): Int32Array {
  const { totals } = history.ticks;
  const out = new Int32Array(edges.length - 1);
  let at = edges[0] ?? -1;
  for (let x = 0; x < out.length; x++) {
    const end = Math.max(at, edges[x + 1] ?? -1);
    // The state before the column applies if nothing in the column is higher, or if the column has no ticks.
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

/**
 * The picture of an interval. Columns that an earlier picture also has are copied from it, for example after a small
 * move of the view. `scale`: the bytes at its bottom and at its top; null: as the interval requires.
 */
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

/**
 * The colours of a picture's pixels, as 0xAABBGGRR in signed 32-bit numbers: of each block, of blocks that are not
 * in the page, and of the background.
 */
export interface Colours {
  pixels: Int32Array;
  /** The same, darker, for the edges of blocks. */
  dark: Int32Array;
  others: number;
  othersDark: number;
  back: number;
}

const MARK = 0xffff5cd6 | 0;

/** The mean of two colours. */
function between(one: number, other: number): number {
  return 0xff000000 | ((one >>> 1) & 0x7f7f7f) + ((other >>> 1) & 0x7f7f7f);
}

/**
 * Writes the colours of a picture into pixels, which are stored row by row. `found`: blocks that a search found,
 * which are outlined; others fade.
 */
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
        // A line between a block and the one above it or before it, if both are large enough to be distinguished.
        const isEdge = (above !== block && (at === foot || blocks[at + 1] === block)) || (blocks[at - toLeft] !== block && blocks[at + toRight] === block);
        out[to] = (isEdge ? dark[block] : pixels[block]) ?? others;
      }
      above = block;
    }
  }
  if (found) outline(out, of, colours.back, marked, found);
}

/** Outlines the matches, and fades everything else. */
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
