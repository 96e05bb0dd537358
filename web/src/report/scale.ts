// The range of bytes in the chart: set by keys, by the wheel, and to the pinned block.

import { item } from "../lib/item";
import { type History, NEVER, lastUpTo, liveAt } from "./history";
import { chooseEvent, chooseScale, chooseView, data, history, moment, state } from "./state";

/** Narrower ranges are not enlarged: a byte would be taller than a pixel. */
const NARROWEST = 512;
/** Space around an enlarged block, as a multiple of its size. */
const ROOM = 1;

/** The most that the chart's level held in the run: the scale if the chart shows everything. */
function whole(): number {
  const totals = history()?.ticks.totals ?? [];
  let most = 1;
  for (const total of totals) most = Math.max(most, total);
  return most;
}

/**
 * Scales the bytes by a factor, keeping the position of a byte; shows all of them if the result is larger. `most`:
 * the bytes at the top now.
 */
export function scaleAbout(at: number, times: number, most: number): void {
  const [low, high] = state.scale ?? [0, most];
  const from = Math.max(0, Math.round(at - (at - low) * times)), to = Math.round(at + (high - at) * times);
  if (to - from < NARROWEST && times < 1) return;
  chooseScale(from <= 0 && to >= Math.max(whole(), most) ? null : [from, to]);
}

export function moveScale(share: number): void {
  if (!state.scale) return;
  const [low, high] = state.scale, by = Math.max(-low, Math.round((high - low) * share));
  if (by) chooseScale([low + by, high + by]);
}

/** The lower edge of the pinned block in the stack of blocks at a tick. */
function footOf(of: History, block: number, tick: number): number {
  let sum = 0;
  for (const each of liveAt(of, tick)) {
    if (each === block) return sum;
    sum += item(of.bytes, each);
  }
  return sum;
}

/** The centre for enlarging by keys: the pinned block at the point in time, or the middle of the chart. */
export function middleOfScale(most: number): number {
  const of = history(), block = state.pinned, then = moment(), [low, high] = state.scale ?? [0, most];
  if (of && then && block !== null) {
    const tick = lastUpTo(of.ticks.seqs, then.seq);
    if (item(of.made, block) <= tick && item(of.ended, block) > tick) return footOf(of, block, tick) + item(of.bytes, block) / 2;
  }
  return (low + high) / 2;
}

/** Shows the pinned block, with its own size as space around it. */
export function enlarge(): void {
  const of = history(), block = state.pinned;
  if (!of || block === null) return;
  const { seqs, times } = of.ticks, made = item(of.made, block), ended = item(of.ended, block), then = moment()?.seq ?? 0;
  const now = lastUpTo(seqs, then), isLive = made <= now && ended > now;
  if (!isLive) {
    chooseEvent(item(seqs, made));
    state.pinned = block;
  }
  const from = item(times, made), to = ended === NEVER ? data.to : item(times, ended), room = Math.max(2, Math.round((to - from) * ROOM / 2));
  const size = item(of.bytes, block), foot = footOf(of, block, isLive ? now : made);
  state.scale = [Math.max(0, Math.round(foot - size * ROOM)), Math.round(foot + size * (1 + ROOM))];
  chooseView(Math.max(data.from, from - room), Math.min(data.to, to + room));
}
