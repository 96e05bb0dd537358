// The memory of stacks at any event, and the memory that an interval left, computed from the blocks in the page.

import { item } from "../lib/item";
import type { Level, Moment } from "./data";
import { type History, isInside, isLive, isWhole, lastUpTo } from "./history";

/** Bytes and blocks by stack, in the form of a point in time. Blocks whose stack is not in the page count as others. */
function byStack(history: History, blocks: Iterable<number>): Pick<Level, "bytes" | "stacks" | "others"> {
  const rows = new Map<number, [stack: number, bytes: number, blocks: number]>();
  const others: [number, number, number] = [0, 0, 0];
  let bytes = 0;
  for (const block of blocks) {
    const size = item(history.bytes, block), stack = item(history.stacks, block);
    bytes += size;
    if (stack < 0) {
      others[0] = 1;
      others[1] += size;
      others[2]++;
      continue;
    }
    const row = rows.get(stack) ?? [stack, 0, 0];
    row[1] += size;
    row[2]++;
    rows.set(stack, row);
  }
  return { bytes, others, stacks: [...rows.values()].sort((a, b) => b[1] - a[1] || a[0] - b[0]) };
}

function* blocksOf(history: History, takes: (block: number) => boolean): Iterable<number> {
  for (let block = 0; block < history.count; block++) if (takes(block)) yield block;
}

/** Whether the live blocks of a level just after an event are known. */
export function isKnown(history: History, seq: number): boolean {
  return isInside(history, seq) && (lastUpTo(history.ticks.seqs, seq) < 0 || isWhole(history, seq));
}

/** The point in time just after an event; undefined if blocks that were live then are not in the page. */
export function momentAt(histories: readonly History[], seq: number): Moment | undefined {
  const levels: Level[] = [];
  let time = 0;
  for (const history of histories) {
    const tick = lastUpTo(history.ticks.seqs, seq);
    if (!isKnown(history, seq)) return undefined;
    time = Math.max(time, tick < 0 ? 0 : item(history.ticks.times, tick));
    levels.push({ level: history.level, ...byStack(history, blocksOf(history, (block) => tick >= 0 && isLive(history, block, tick))) });
  }
  return { kind: "event", seq, time, levels };
}

/** Blocks allocated after one event and not later than another, and live at the second. */
export interface Survivors extends Moment {
  kind: "survivors";
  /**
   * Bytes that were live at the end in blocks that are not in the page; some of them may have been allocated in the
   * interval.
   */
  unknown: number[];
}

export function survivors(histories: readonly History[], from: number, to: number): Survivors {
  const found: Survivors = { kind: "survivors", seq: to, time: 0, levels: [], unknown: [] };
  for (const history of histories) {
    const { seqs, times, totals, kept } = history.ticks;
    const tick = lastUpTo(seqs, to), first = lastUpTo(seqs, from);
    const isOne = (block: number) => tick >= 0 && item(history.made, block) > first && isLive(history, block, tick);
    found.levels.push({ level: history.level, ...byStack(history, blocksOf(history, isOne)) });
    found.unknown.push(tick < 0 ? 0 : Math.max(0, item(totals, tick) - item(kept, tick)));
    found.time = Math.max(found.time, tick < 0 ? 0 : item(times, tick));
  }
  return found;
}
