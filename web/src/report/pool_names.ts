// Finds the PyTorch pool of a segment, from the tensors that are in it now, or were in it before or after.

import { item } from "../lib/item";
import { type History, NEVER } from "./history";
import type { Segment } from "./segments";
import { SPAN, type Spans, spansAt } from "./spans";
import { data } from "./state";

/** Larger requests come from other segments than smaller ones: kSmallSize of c10/cuda/CUDACachingAllocator.cpp. */
const SMALL = 1 << 20;
/** A block's placement: the value for unknown, and the first value that is an index into data.placements. */
const UNKNOWN = 1, FIRST = 2;

export interface PoolName {
  /** The pool's id; zeros: the default pool. */
  high: number;
  low: number;
  /** The stream's handle; 0: the default stream. */
  stream: number;
  isSmall: boolean;
}

const sorted = new WeakMap<History, Uint32Array>();

/** All blocks of the tensors, sorted by address. */
function byAddress(tensors: History): Uint32Array {
  let order = sorted.get(tensors);
  if (!order) {
    order = Uint32Array.from(tensors.addresses.keys()).sort((a, b) => item(tensors.addresses, a) - item(tensors.addresses, b));
    sorted.set(tensors, order);
  }
  return order;
}

function firstFrom(tensors: History, order: Uint32Array, address: number): number {
  let low = 0, high = order.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (item(tensors.addresses, item(order, middle)) < address) low = middle + 1;
    else high = middle;
  }
  return low;
}

function nameOf(tensors: History, block: number): PoolName | undefined {
  const placement = item(tensors.placements, block);
  if (placement === UNKNOWN) return undefined;
  const isSmall = item(tensors.bytes, block) - Math.max(0, item(tensors.slack, block)) <= SMALL;
  if (placement < FIRST) return { high: 0, low: 0, stream: 0, isSmall };
  const [stream, high, low] = item(data.placements, placement - FIRST);
  return { high, low, stream, isSmall };
}

/** The events between which a segment exists at its address. */
function lifeOf(segment: Segment, driver: History, spans: Spans, seq: number): [from: number, to: number] {
  const { seqs } = driver.ticks, made = segment.made[0]?.block ?? 0;
  if (segment.expandable) {
    const around = spansAt(spans, SPAN.addresses, seq).find((of) => of.address <= segment.address && segment.address < of.address + of.bytes);
    return around ? [around.made, around.ended] : [seq, seq];
  }
  const ended = item(driver.ended, made);
  return [item(seqs, item(driver.made, made)), ended === NEVER ? Infinity : item(seqs, ended)];
}

/** The pool of a segment; undefined if the page has no tensor that was in it with a known placement. */
export function poolNameOf(segment: Segment, tensors: History, driver: History, spans: Spans, seq: number): PoolName | undefined {
  for (const { block } of segment.blocks) {
    const name = nameOf(tensors, block);
    if (name) return name;
  }
  const order = byAddress(tensors), { seqs } = tensors.ticks, [from, to] = lifeOf(segment, driver, spans, seq);
  const end = segment.address + segment.bytes;
  for (let at = firstFrom(tensors, order, segment.address); at < order.length; at++) {
    const block = item(order, at), made = item(seqs, item(tensors.made, block));
    if (item(tensors.addresses, block) >= end) break;
    const name = made >= from && made < to ? nameOf(tensors, block) : undefined;
    if (name) return name;
  }
  return undefined;
}

/** A description of the pool. */
export function poolWords(name: PoolName | undefined): string {
  if (!name) return "pool not known: no tensor lay here in this page";
  const blocks = name.isSmall ? "blocks up to 1 MiB" : "blocks above 1 MiB";
  const stream = name.stream ? `, stream 0x${name.stream.toString(16)}` : "";
  return `${poolTitle(name)}, ${blocks}${stream}`;
}

/**
 * The pool without its parts. PyTorch numbers pools of graph captures in the first number, pools of programs in the
 * second.
 */
export function poolTitle({ high, low }: PoolName): string {
  if (!high && !low) return "default pool";
  return `private pool ${high}.${low} (${high ? "a CUDA graph's capture" : "torch.cuda.MemPool or graph_pool_handle()"})`;
}

