// PyTorch's segments and what lies in them at an event, out of the blocks that are in the page: as analyzer/src/views/ledger/pool.rs
// has them.

import { grouped, item, sumOf } from "../lib/item";
import { HANDLE, type History, MAYBE, NEVER, POOL, isWhole, lastUpTo, liveAt } from "./history";
import { SPAN, type Span, type Spans, spansAt } from "./spans";

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
  /** The driver's blocks that it is made of: one, or the handles that are mapped side by side. */
  made: { block: number; address: number; bytes: number }[];
  /** In the order of their addresses. */
  blocks: Placed[];
  free: { address: number; bytes: number }[];
}

export interface Segments {
  /** The largest first. */
  pool: Segment[];
  /** Driver allocations that are not the pool's: numbers of blocks, the largest first. */
  others: number[];
  /** The pool's handles that are mapped nowhere. */
  unmapped: number[];
  /** Bytes of tensors that lie in none of the segments. */
  loose: number;
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

/** The place of the first block that begins at an address or after it. */
function firstFrom(blocks: readonly Placed[], address: number): number {
  let low = 0, high = blocks.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (item(blocks, middle).address < address) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Whether a live tensor lies in a range, or reaches into it. */
function holds(live: readonly Placed[], address: number, bytes: number): boolean {
  const first = firstFrom(live, address), before = live[first - 1], next = live[first];
  return (next !== undefined && next.address < address + bytes) || (before !== undefined && before.address + before.bytes > address);
}

type Unit = Segment["made"][number];

/** Where the memory of driver blocks lies: a handle's where it is mapped. */
function unitsOf(driver: History, mappings: readonly Span[]): (block: number) => Unit[] {
  const mapped = grouped(mappings, (of) => of.handle);
  return (block) => {
    const address = item(driver.addresses, block);
    if (!(item(driver.kinds, block) & HANDLE)) return [{ block, address, bytes: item(driver.bytes, block) }];
    return (mapped.get(address) ?? []).map((of) => ({ block, address: of.address, bytes: of.bytes }));
  };
}

/** Mappings that lie side by side in one piece of reserved address space, as one segment. */
function runs(units: readonly Unit[], starts: ReadonlySet<number>): Segment[] {
  const found: Segment[] = [];
  for (const unit of [...units].sort((a, b) => a.address - b.address)) {
    const run = found.at(-1);
    if (run && !starts.has(unit.address) && run.address + run.bytes === unit.address) {
      run.bytes += unit.bytes;
      run.made.push(unit);
    } else found.push({ address: unit.address, bytes: unit.bytes, expandable: true, made: [unit], blocks: [], free: [] });
  }
  return found;
}

let newest: { tensors: History; seq: number; found: Segments } | undefined;

/** The segments just after an event; those of the event that was asked for last are kept, for several parts of the page ask. */
export function segmentsAt(tensors: History, driver: History, spans: Spans, seq: number): Segments {
  if (newest?.tensors !== tensors || newest.seq !== seq) newest = { tensors, seq, found: cut(tensors, driver, spans, seq) };
  return newest.found;
}

function cut(tensors: History, driver: History, spans: Spans, seq: number): Segments {
  const inside = placed(tensors, lastUpTo(tensors.ticks.seqs, seq)), used = inside.filter((of) => !of.waits);
  const live = liveAt(driver, lastUpTo(driver.ticks.seqs, seq));
  const units = unitsOf(driver, spansAt(spans, SPAN.mapping, seq)), kind = (block: number) => item(driver.kinds, block);
  const isPools = (block: number) => (kind(block) & POOL) !== 0
    || ((kind(block) & MAYBE) !== 0 && units(block).some((of) => holds(used, of.address, of.bytes)));
  const own = new Set(live.filter(isPools)), plain: Segment[] = [], mapped: Unit[] = [], unmapped: number[] = [];
  for (const block of own) {
    const [first] = units(block);
    if (!first) unmapped.push(block);
    // Mapped twice it is still one piece of memory: the first address stands for it.
    else if (kind(block) & HANDLE) mapped.push(first);
    else plain.push({ address: first.address, bytes: first.bytes, expandable: false, made: [first], blocks: [], free: [] });
  }
  const starts = new Set(spansAt(spans, SPAN.addresses, seq).map((of) => of.address));
  const pool = [...plain, ...runs(mapped, starts)].sort((a, b) => a.address - b.address);
  let at = 0, loose = 0;
  for (const block of inside) {
    while (at < pool.length && item(pool, at).address + item(pool, at).bytes <= block.address) at++;
    const segment = pool[at];
    if (segment && segment.address <= block.address) segment.blocks.push(block);
    else if (!block.waits) loose += block.bytes;
  }
  for (const segment of pool) segment.free = freeIn(segment);
  const size = (block: number) => item(driver.bytes, block);
  return {
    pool: pool.sort((a, b) => b.bytes - a.bytes || a.address - b.address),
    others: live.filter((block) => !own.has(block)).sort((a, b) => size(b) - size(a) || a - b),
    unmapped, loose,
    isWhole: isWhole(tensors, seq) && isWhole(driver, seq) && isWhole(spans, seq),
  };
}
