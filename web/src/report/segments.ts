// PyTorch's segments and their contents at an event, computed from the blocks in the page in the same way as in
// analyzer/src/views/ledger/pool.rs.

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

/** A range of address space from which PyTorch's pool cuts blocks. */
export interface Segment {
  address: number;
  bytes: number;
  expandable: boolean;
  /** The driver's blocks that it is made of: one, or adjacent mapped handles. */
  made: { block: number; address: number; bytes: number }[];
  /** Sorted by address. */
  blocks: Placed[];
  free: { address: number; bytes: number }[];
}

export interface Segments {
  /** The largest first. */
  pool: Segment[];
  /** Indices of driver blocks outside the pool, the largest first. */
  others: number[];
  /** The pool's handles that are mapped nowhere. */
  unmapped: number[];
  /** Bytes of tensors that are in none of the segments. */
  loose: number;
  /** Whether all blocks that were live then are in the page. */
  isWhole: boolean;
}

export function largestFree(segment: Segment): number {
  return Math.max(0, ...segment.free.map((of) => of.bytes));
}

/** Bytes of blocks that do not wait. */
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

/** Blocks that are live just after an event, and those that wait then, sorted by address. */
function placed(tensors: History, tick: number): Placed[] {
  const found: Placed[] = [];
  for (let block = 0; block < tensors.count && item(tensors.made, block) <= tick; block++) {
    const ended = item(tensors.ended, block), waits = ended !== NEVER && ended <= tick;
    if (waits && item(tensors.released, block) <= tick) continue;
    found.push({ block, address: item(tensors.addresses, block), bytes: item(tensors.bytes, block), waits });
  }
  return found.sort((a, b) => a.address - b.address);
}

/** The index of the first block that begins at or after an address. */
function firstFrom(blocks: readonly Placed[], address: number): number {
  let low = 0, high = blocks.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (item(blocks, middle).address < address) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Whether a live tensor is in a range, or overlaps it. */
function holds(live: readonly Placed[], address: number, bytes: number): boolean {
  const first = firstFrom(live, address), before = live[first - 1], next = live[first];
  return (next !== undefined && next.address < address + bytes) || (before !== undefined && before.address + before.bytes > address);
}

type Unit = Segment["made"][number];

/** The memory of driver blocks: a handle's memory is where it is mapped. */
function unitsOf(driver: History, mappings: readonly Span[]): (block: number) => Unit[] {
  const mapped = grouped(mappings, (of) => of.handle);
  return (block) => {
    const address = item(driver.addresses, block);
    if (!(item(driver.kinds, block) & HANDLE)) return [{ block, address, bytes: item(driver.bytes, block) }];
    return (mapped.get(address) ?? []).map((of) => ({ block, address: of.address, bytes: of.bytes }));
  };
}

/** Merges adjacent mappings in one range of reserved address space into one segment. */
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

/**
 * The segments just after an event. Those of the newest event are cached, because several parts of the page use
 * them.
 */
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
    // Memory that is mapped twice counts once, at its first address.
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
