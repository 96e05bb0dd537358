// The blocks of a level with their lifetimes, written by analyzer/src/views/page/history.rs.

import { Numbers, inflated } from "../lib/unpack";
import type { PageHistory } from "./data";

/** Not at any tick. */
export const NEVER = 0xffffffff;

/** Kind of a driver block: memory of a VMM handle, whose address is that of its mapping. */
export const HANDLE = 1;
/** Kind of a driver block: it belongs to PyTorch's pool. */
export const POOL = 2;
/**
 * Other kinds of driver blocks. MAYBE: the caller is unknown, so the block may belong to the pool; BROUGHT: the
 * program's own host memory that it pinned.
 */
export const MANAGED = 4, ARRAY = 8, CUDA_POOL = 16, GRAPH = 32, MAYBE = 64, BROUGHT = 128;

function column<T extends Float64Array | Uint32Array | Uint8Array>(out: T, of: (before: number) => number): T {
  let before = 0;
  for (let i = 0; i < out.length; i++) out[i] = before = of(before);
  return out;
}

/** At each tick something happened to a block, or the level's bytes are known. Ticks are in the order of events. */
export interface Ticks {
  readonly seqs: Float64Array;
  /** ns; ascending. */
  readonly times: Float64Array;
  /** Bytes of the level just after it. */
  readonly totals: Float64Array;
  /** Bytes of the blocks in the page. */
  readonly kept: Float64Array;
}

/** The blocks of a level, in the order of their allocations; each column has a number for each block. */
export interface History {
  readonly level: string;
  readonly count: number;
  /** The number of all blocks, including omitted ones. */
  readonly all: number;
  readonly whole: boolean;
  /** First and last event of the intervals without omitted blocks. */
  readonly stretches: readonly [number, number][];
  /** First and last event of the part of the run that the page covers. */
  readonly span: readonly [number, number];
  readonly ticks: Ticks;
  /** Ticks. `ended` is NEVER if a block is live at the end. */
  readonly made: Uint32Array;
  readonly ended: Uint32Array;
  /** The tick from which on the pool could use it again: `ended`, or a later one if it waited for other streams. */
  readonly released: Uint32Array;
  readonly bytes: Float64Array;
  readonly addresses: Float64Array;
  /** The bytes beyond the requested ones; -1: unknown. */
  readonly slack: Float64Array;
  /** -1: not in the page. */
  readonly stacks: Float64Array;
  /** The index in data.categories; -1: no category. */
  readonly categories: Float64Array;
  /** 0: the default pool and stream; 1: unknown; else 2 more than the index in data.placements. */
  readonly placements: Float64Array;
  readonly kinds: Uint8Array;
  /** The index in data.libraries; -1: unknown. Not for tensors. */
  readonly libraries: Float64Array;
  /** The stack that freed it; -1: not recorded, or not in the page. */
  readonly freedBy: Float64Array;
}

export async function unpacked(from: PageHistory, [begin, end]: readonly [number | null, number | null]): Promise<History> {
  const read = new Numbers(await inflated(from.columns));
  const { blocks, events } = from;
  const seqs = column(new Float64Array(events), (before) => before + read.next());
  const times = column(new Float64Array(events), (before) => before + read.signed());
  const made = column(new Uint32Array(blocks), (before) => before + read.next());
  const later = column(new Float64Array(blocks), () => read.next());
  const waited = column(new Float64Array(blocks), () => read.next());
  const bytes = column(new Float64Array(blocks), () => read.next());
  const addresses = read.sums(blocks);
  const slack = column(new Float64Array(blocks), () => read.next() - 1);
  const stacks = column(new Float64Array(blocks), () => read.next() - 1);
  const categories = column(new Float64Array(blocks), () => read.next() - 1);
  const placements = column(new Float64Array(blocks), () => read.next());
  const kinds = column(new Uint8Array(blocks), () => read.next());
  const libraries = column(new Float64Array(from.level === "tensor" ? 0 : blocks), () => read.next() - 1);
  const freedBy = column(new Float64Array(blocks), () => read.next() - 1);
  const ended = made.map((tick, i) => (later[i] ? tick + (later[i] ?? 0) - 1 : NEVER));
  const released = ended.map((tick, i) => {
    const more = waited[i] ?? 0;
    return more === 0 ? tick : more === 1 ? NEVER : tick + more - 2;
  });
  const span = [begin ?? 0, end ?? Infinity] as const;
  const { ticks, numbers } = withPoints(from, seqs, times, span[1]);
  const renumbered = (of: Uint32Array) => of.map((tick) => (tick === NEVER ? NEVER : numbers[tick] ?? 0));
  const columns = { made: renumbered(made), ended: renumbered(ended), released: renumbered(released), bytes };
  const history = {
    level: from.level, count: blocks, all: from.all, whole: from.whole, stretches: from.stretches, span, ticks,
    ...columns, addresses, slack, stacks, categories, placements, kinds, libraries, freedBy,
  };
  addUp(history, from);
  return history;
}

/**
 * The blocks' events and the points of the level, in one order; `numbers` are the ticks of the former. Events after
 * the last event of the page's part of the run get a later time.
 */
function withPoints({ points }: PageHistory, seqs: Float64Array, times: Float64Array, end: number): { ticks: Ticks; numbers: Uint32Array } {
  const size = seqs.length + points.length, order = new Float64Array(size), moments = new Float64Array(size);
  const numbers = new Uint32Array(seqs.length);
  let length = 0, latest = 0;
  for (let event = 0, point = 0; event < seqs.length || point < points.length; length++) {
    const seq = Math.min(seqs[event] ?? Infinity, points[point]?.[0] ?? Infinity);
    const after = seq > end ? 1 : 0;
    if (seqs[event] === seq) {
      latest = Math.max(latest, (times[event] ?? 0) + after);
      numbers[event++] = length;
    }
    for (; points[point]?.[0] === seq; point++) latest = Math.max(latest, (points[point]?.[1] ?? 0) + after);
    order[length] = seq;
    moments[length] = latest;
  }
  const figures = () => new Float64Array(length);
  return { ticks: { seqs: order.slice(0, length), times: moments.slice(0, length), totals: figures(), kept: figures() }, numbers };
}

/** The omitted bytes are known at ticks with the level's bytes, and apply until the next such tick. */
function addUp(history: History, from: PageHistory): void {
  const { ticks, made, ended, bytes } = history;
  const { kept, totals, seqs } = ticks;
  for (let i = 0; i < history.count; i++) {
    const size = bytes[i] ?? 0, from_ = made[i] ?? 0, to = ended[i] ?? NEVER;
    kept[from_] = (kept[from_] ?? 0) + size;
    if (to !== NEVER) kept[to] = (kept[to] ?? 0) - size;
  }
  for (let i = 1; i < kept.length; i++) kept[i] = (kept[i] ?? 0) + (kept[i - 1] ?? 0);
  const points = new Map(from.points.map(([seq, , size]) => [seq, size]));
  let rest = 0, stretch = 0;
  for (let i = 0; i < totals.length; i++) {
    const seq = seqs[i] ?? 0, now = kept[i] ?? 0, known = points.get(seq);
    while (stretch < from.stretches.length && (from.stretches[stretch]?.[1] ?? 0) < seq) stretch++;
    const inside = from.whole || (from.stretches[stretch]?.[0] ?? Infinity) <= seq;
    if (known !== undefined) rest = known - now;
    else if (inside) rest = 0;
    totals[i] = now + rest;
  }
}

/** The last tick that is not after `value`; -1: no tick. `from`: a tick that is not after it. */
export function lastUpTo(sorted: Float64Array, value: number, from = -1): number {
  let low = from + 1, high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((sorted[middle] ?? 0) <= value) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

export function isLive(history: History, block: number, tick: number): boolean {
  return (history.made[block] ?? 0) <= tick && (history.ended[block] ?? 0) > tick;
}

/** The blocks that are live just after a tick, the oldest first. */
export function liveAt(history: History, tick: number): number[] {
  const found = [];
  for (let i = 0; i < history.count && (history.made[i] ?? 0) <= tick; i++) if ((history.ended[i] ?? 0) > tick) found.push(i);
  return found;
}

/** Whether an event is in the part of the run that the page covers. */
export function isInside({ span }: Partial<Pick<History, "span">>, seq: number): boolean {
  return !span || (span[0] <= seq && seq <= span[1]);
}

/** Whether all blocks that were live just after an event are in the page. */
export function isWhole(history: Pick<History, "whole" | "stretches"> & Partial<Pick<History, "span">>, seq: number): boolean {
  if (!isInside(history, seq)) return false;
  return history.whole || history.stretches.some(([begin, end]) => begin <= seq && seq <= end);
}
