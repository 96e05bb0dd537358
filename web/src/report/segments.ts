// PyTorch's segments and what lies in them at an event, out of the blocks that are in the page.

import { item, sumOf } from "../lib/item";
import { data } from "./state";
import { HANDLE, type History, NEVER, POOL, isWhole, lastUpTo, liveAt } from "./history";

/** A tensor's block in a segment; `waits`: it was freed, and other streams still use it. */
export interface Placed {
  block: number;
  address: number;
  bytes: number;
  waits: boolean;
}

/** A piece of address space that PyTorch's pool cuts blocks from. */
export interface Segment {
  address: number;
  bytes: number;
  expandable: boolean;
  /** In the order of their addresses. */
  blocks: Placed[];
  free: { address: number; bytes: number }[];
}

export interface Segments {
  /** The largest first. */
  pool: Segment[];
  /** Driver allocations that are not the pool's: numbers of blocks, the largest first. */
  others: number[];
  /** Whether all blocks are in the page that were live then. */
  isWhole: boolean;
}

export function largestFree(segment: Segment): number {
  return Math.max(0, ...segment.free.map((of) => of.bytes));
}

/** What other blocks than those that wait have. */
export function liveBytes(segment: Segment): number {
  return sumOf(segment.blocks, (of) => (of.waits ? 0 : of.bytes));
}

/** The mappings of the pool's handles, those that lie side by side as one. */
function mapped(driver: History, live: readonly number[], seq: number): [address: number, bytes: number][] {
  const handles = new Set(live.filter((block) => item(driver.kinds, block) === HANDLE + POOL).map((block) => item(driver.addresses, block)));
  const now = data.mappings.filter(([, , handle, made, ended]) => made <= seq && (!ended || ended > seq) && handles.has(handle));
  const runs: [number, number][] = [];
  for (const [address, bytes] of now.sort((a, b) => a[0] - b[0])) {
    const run = runs.at(-1);
    if (run && run[0] + run[1] === address) run[1] += bytes;
    else runs.push([address, bytes]);
  }
  return runs;
}

function freeIn(segment: Segment): Segment["free"] {
  const free = [];
  let at = segment.address;
  for (const { address, bytes } of segment.blocks) {
    if (address > at) free.push({ address: at, bytes: address - at });
    at = Math.max(at, address + bytes);
  }
  const end = segment.address + segment.bytes;
  if (end > at) free.push({ address: at, bytes: end - at });
  return free;
}

/** Blocks that are live just after an event, and those that wait then, in the order of their addresses. */
function placed(tensors: History, tick: number): Placed[] {
  const found: Placed[] = [];
  for (let block = 0; block < tensors.count && item(tensors.made, block) <= tick; block++) {
    const ended = item(tensors.ended, block), waits = ended !== NEVER && ended <= tick;
    if (waits && item(tensors.released, block) <= tick) continue;
    found.push({ block, address: item(tensors.addresses, block), bytes: item(tensors.bytes, block), waits });
  }
  return found.sort((a, b) => a.address - b.address);
}

export function segmentsAt(tensors: History, driver: History, seq: number): Segments {
  const live = liveAt(driver, lastUpTo(driver.ticks.seqs, seq));
  const size = (block: number) => item(driver.bytes, block);
  const plain = live.filter((block) => item(driver.kinds, block) === POOL)
    .map((block): [number, number, boolean] => [item(driver.addresses, block), size(block), false]);
  const expandable = mapped(driver, live, seq).map(([address, bytes]): [number, number, boolean] => [address, bytes, true]);
  const pool = [...plain, ...expandable].sort((a, b) => a[0] - b[0])
    .map(([address, bytes, expandable]): Segment => ({ address, bytes, expandable, blocks: [], free: [] }));
  let at = 0;
  for (const block of placed(tensors, lastUpTo(tensors.ticks.seqs, seq))) {
    while (at < pool.length && item(pool, at).address + item(pool, at).bytes <= block.address) at++;
    const segment = pool[at];
    if (segment && segment.address <= block.address) segment.blocks.push(block);
  }
  for (const segment of pool) segment.free = freeIn(segment);
  return {
    pool: pool.sort((a, b) => b.bytes - a.bytes || a.address - b.address),
    others: live.filter((block) => !(item(driver.kinds, block) & POOL)).sort((a, b) => size(b) - size(a)),
    isWhole: isWhole(tensors, seq) && isWhole(driver, seq),
  };
}
