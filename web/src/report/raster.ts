// Blocks over their lives as a picture: each is a band as high as its bytes, from when it was allocated to when it was freed,
// above those that are older. Pixels are worked out column by column, so that a frame takes as long however many blocks there
// are: in each column stands the moment at which the level held most in its time.

import { type History, lastUpTo } from "./history";

/** What stands in no block's pixel. */
export const NOTHING = -1;
/** What is not in the page: the part of the level that no block of it explains. */
export const REST = -2;

/** The picture: which block each pixel is of, row by row from the top. */
export interface Raster {
  readonly width: number;
  readonly height: number;
  readonly blocks: Int32Array;
  /** Bytes at the top edge. */
  readonly most: number;
  /** The tick that each column shows; -1: before the first. */
  readonly ticks: Int32Array;
}

/** The ticks at which the columns of a picture hold most. `edges` are times: one more than there are columns. */
function columnTicks(history: History, edges: Float64Array): Int32Array {
  const { times, totals } = history.ticks;
  const out = new Int32Array(edges.length - 1);
  let at = lastUpTo(times, edges[0] ?? 0);
  for (let x = 0; x < out.length; x++) {
    let best = at;
    for (const end = edges[x + 1] ?? 0; at + 1 < times.length && (times[at + 1] ?? 0) <= end;) {
      at++;
      if (best < 0 || (totals[at] ?? 0) > (totals[best] ?? 0)) best = at;
    }
    // What came before the column is still there where nothing in it is more, or where it is all there is.
    out[x] = best;
  }
  return out;
}

export function raster(history: History, edges: Float64Array, width: number, height: number): Raster {
  const ticks = columnTicks(history, edges);
  const { totals, kept } = history.ticks;
  const most = ticks.reduce((found, tick) => Math.max(found, tick < 0 ? 0 : totals[tick] ?? 0), 1);
  const blocks = new Int32Array(width * height).fill(NOTHING);
  const live = new Live(history);
  let before = -2;
  for (let x = 0; x < width; x++) {
    const tick = ticks[x] ?? -1;
    if (tick === before) {
      for (let at = x; at < blocks.length; at += width) blocks[at] = blocks[at - 1] ?? NOTHING;
      continue;
    }
    before = tick;
    if (tick < 0) continue;
    live.goTo(tick);
    let bytes = 0, row = height;
    const fill = (size: number, block: number) => {
      bytes += size;
      for (const top = Math.round(height - bytes / most * height); row > top && row > 0;) blocks[--row * width + x] = block;
    };
    for (let i = 0; i < live.length; i++) fill(history.bytes[live.order[i] ?? 0] ?? 0, live.order[i] ?? 0);
    const rest = (totals[tick] ?? 0) - (kept[tick] ?? 0);
    if (rest > 0) fill(rest, REST);
  }
  return { width, height, blocks, most, ticks };
}

/** The blocks that are live at a tick, the oldest first. Going on is cheap, going back is not. */
class Live {
  order: Int32Array;
  length = 0;
  private begun = 0;
  private at = -1;

  constructor(private readonly history: History) {
    this.order = new Int32Array(1024);
  }

  goTo(tick: number): void {
    const { made, ended, count } = this.history;
    if (tick < this.at) [this.begun, this.length] = [0, 0];
    let length = 0;
    for (let i = 0; i < this.length; i++) {
      const block = this.order[i] ?? 0;
      if ((ended[block] ?? 0) > tick) this.order[length++] = block;
    }
    let next = this.begun;
    for (; next < count && (made[next] ?? 0) <= tick; next++) {
      if ((ended[next] ?? 0) <= tick) continue;
      if (length === this.order.length) {
        const more = new Int32Array(length * 2);
        more.set(this.order);
        this.order = more;
      }
      this.order[length++] = next;
    }
    [this.begun, this.length, this.at] = [next, length, tick];
  }
}

/** The colours of a picture's pixels, as 0xAABBGGRR: of each block, of what is not in the page, and of nothing. */
export interface Colours {
  blocks: Uint32Array;
  rest: number;
  back: number;
}

export function painted(of: Raster, colours: Colours, marked: number | null): Uint32Array<ArrayBuffer> {
  const { width, height, blocks } = of;
  const out = new Uint32Array(width * height), dark = colours.blocks.map(darker), restDark = darker(colours.rest);
  for (let y = 0, at = 0; y < height; y++) {
    for (let x = 0; x < width; x++, at++) {
      const block = blocks[at] ?? NOTHING;
      if (block === NOTHING) {
        out[at] = colours.back;
      } else if (block === REST) {
        out[at] = (x + y) % 6 < 2 ? restDark : colours.rest;
      } else if (block === marked) {
        out[at] = MARK;
      } else {
        // A line between a block and the one above it or before it, where both are large enough to be told apart.
        const above = y > 0 ? blocks[at - width] : block, below = blocks[at + width] ?? block;
        const left = x > 0 ? blocks[at - 1] : block, right = x + 1 < width ? blocks[at + 1] : block;
        const isEdge = (above !== block && below === block) || (left !== block && right === block);
        out[at] = (isEdge ? dark[block] : colours.blocks[block]) ?? colours.rest;
      }
    }
  }
  return out;
}

const MARK = 0xffff5cd6;

function darker(colour: number): number {
  const part = (shift: number) => Math.round((colour >>> shift & 0xff) * 0.78) << shift;
  return (0xff000000 | part(16) | part(8) | part(0)) >>> 0;
}
