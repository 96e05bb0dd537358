// The blocks that are live at a tick, stacked from the oldest up, and the column of pixels that they fill.

import type { History } from "./history";

/** Moves from tick to tick. The unchanged bottom of the stack is not computed again. */
export class Live {
  private order = new Int32Array(1024);
  private ends = new Uint32Array(1024);
  /** Bytes up to each block's upper edge. */
  private sums = new Float64Array(1024);
  private length = 0;
  private begun = 0;
  /** The number of blocks at the bottom that are unchanged since the column drawn last, if there is one. */
  private same = 0;
  private drawn = -1;

  /** `blocks`: the columns' pixels, each from `low` bytes at its bottom to `most` at its top. */
  constructor(private readonly history: History, private readonly blocks: Int32Array, private readonly height: number, private readonly low: number, private readonly most: number) {}

  /** Moves to a tick, which is later than the one before. */
  goTo(tick: number): void {
    const { made, ended, bytes, count } = this.history, { order, ends, sums, length } = this;
    let same = 0;
    while (same < length && (ends[same] ?? 0) > tick) same++;
    this.same = Math.min(this.same, same);
    let kept = same, sum = same > 0 ? sums[same - 1] ?? 0 : 0, before = sum;
    for (let i = same; i < length; i++) {
      const upTo = sums[i] ?? 0, end = ends[i] ?? 0;
      if (end > tick) {
        sum += upTo - before;
        order[kept] = order[i] ?? 0;
        ends[kept] = end;
        sums[kept++] = sum;
      }
      before = upTo;
    }
    this.length = kept;
    let next = this.begun;
    for (; next < count && (made[next] ?? 0) <= tick; next++) {
      const end = ended[next] ?? 0;
      if (end > tick) this.push(next, end, sum += bytes[next] ?? 0);
    }
    this.begun = next;
  }

  private push(block: number, end: number, sum: number): void {
    if (this.length === this.order.length) {
      const longer = <T extends Int32Array | Uint32Array | Float64Array>(to: T, from: T): T => {
        to.set(from);
        return to;
      };
      this.order = longer(new Int32Array(this.length * 2), this.order);
      this.ends = longer(new Uint32Array(this.length * 2), this.ends);
      this.sums = longer(new Float64Array(this.length * 2), this.sums);
    }
    this.order[this.length] = block;
    this.ends[this.length] = end;
    this.sums[this.length++] = sum;
  }

  /** Fills an empty column that begins at an index: the blocks, and `rest` more bytes above them. */
  draw(column: number, rest: number, restIs: number): void {
    const { blocks, height, low, order, sums, length, same } = this, foot = column + height;
    const span = this.most - low, topOf = (sum: number) => Math.min(foot, Math.max(column, column + Math.round(height - (sum - low) / span * height)));
    let at = foot, sum = 0;
    if (same > 0 && this.drawn >= 0) {
      sum = sums[same - 1] ?? 0;
      at = topOf(sum);
      blocks.copyWithin(at, this.drawn + at - column, this.drawn + height);
    }
    for (let i = this.drawn < 0 ? 0 : same; i < length && at > column; i++) {
      // The first block whose upper edge is in the next row, or higher.
      const edge = low + (foot - at + 0.5) / height * span;
      while (i + 8 < length && (sums[i + 7] ?? 0) <= edge) i += 8;
      while (i + 1 < length && (sums[i] ?? 0) <= edge) i++;
      const top = topOf(sums[i] ?? 0);
      if (top < at) blocks.fill(order[i] ?? 0, top, at);
      at = Math.min(at, top);
    }
    if (length > 0) sum = sums[length - 1] ?? 0;
    if (rest > 0 && at > column) {
      const top = topOf(sum + rest);
      if (top < at) blocks.fill(restIs, top, at);
    }
    [this.drawn, this.same] = [column, length];
  }
}
