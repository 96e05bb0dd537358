// The events around the shown point in time: of blocks, mappings and failures.

import { item, sumOf } from "../lib/item";
import { HANDLE, type History, NEVER, isInside, lastUpTo } from "./history";
import { SPAN, type Spans } from "./spans";

export interface Event {
  seq: number;
  time: number;
  what: string;
  bytes: number;
  /** null: no address. */
  address: number | null;
  /** The block of the event, or a text. */
  of: { history: History; block: number } | string;
}

/** The number of events up to the point in time, and of events after it. */
export const AROUND = 100;

/** Events of a level's blocks, in the order of ticks. */
interface Index {
  blocks: Uint32Array;
  ticks: Uint32Array;
  words: (kind: number) => string;
}

const WORDS: Record<string, readonly [made: string, ended: string]> = {
  tensor: ["tensor allocated", "tensor freed"], driver: ["driver memory allocated", "driver memory freed"], host: ["host memory pinned", "host memory unpinned"],
};
const HANDLES = ["VMM handle created", "VMM handle released"] as const;

/** Blocks sorted by one of their ticks; only blocks that have it. */
function inOrder(of: Uint32Array, takes: (block: number) => boolean): Pick<Index, "blocks" | "ticks"> {
  const blocks = Uint32Array.from(of.keys()).filter((block) => of[block] !== NEVER && takes(block)).sort((a, b) => item(of, a) - item(of, b) || a - b);
  return { blocks, ticks: blocks.map((block) => item(of, block)) };
}

const indexes = new WeakMap<History, readonly Index[]>();

function indexesOf(of: History): readonly Index[] {
  let found = indexes.get(of);
  if (found) return found;
  const word = (place: 0 | 1) => (kind: number) => (kind & HANDLE ? HANDLES[place] : WORDS[of.level]?.[place] ?? of.level);
  const waits = (block: number) => of.released[block] !== of.ended[block];
  found = [
    { ...inOrder(of.made, () => true), words: word(0) },
    { ...inOrder(of.ended, () => true), words: word(1) },
    { ...inOrder(of.released, waits), words: () => "other streams are done with it" },
  ];
  indexes.set(of, found);
  return found;
}

/** Which blocks' events are shown, and which other events, by their line. */
export interface Only {
  /** Changes with the search. */
  name: string;
  blocks: (of: History) => Uint8Array | null;
  others: (line: string) => boolean;
}

const chosen = new WeakMap<History, { name: string; indexes: readonly Index[] }>();

function indexesFor(of: History, only: Only | null): readonly Index[] {
  if (!only) return indexesOf(of);
  const before = chosen.get(of);
  if (before?.name === only.name) return before.indexes;
  const is = only.blocks(of);
  const indexes = indexesOf(of).map(({ blocks, ticks, words }): Index => {
    const takes = (_: number, place: number) => is?.[item(blocks, place)] === 1;
    return { blocks: blocks.filter(takes), ticks: ticks.filter(takes), words };
  });
  chosen.set(of, { name: only.name, indexes });
  return indexes;
}

function aroundIn(of: History, seq: number, only: Only | null): Event[] {
  const { seqs, times } = of.ticks, tick = lastUpTo(seqs, seq);
  return indexesFor(of, only).flatMap(({ blocks, ticks, words }) => {
    let low = 0, high = ticks.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (item(ticks, middle) <= tick) low = middle + 1;
      else high = middle;
    }
    return [...blocks.subarray(Math.max(0, low - AROUND), low + AROUND)].map((block, place): Event => {
      const at = item(ticks, Math.max(0, low - AROUND) + place);
      return { seq: item(seqs, at), time: item(times, at), what: words(item(of.kinds, block)), bytes: item(of.bytes, block), address: item(of.addresses, block), of: { history: of, block } };
    });
  });
}

const SPAN_WORDS = new Map<number, readonly [made: string, ended: string]>([
  [SPAN.mapping, ["mapped", "unmapped"]], [SPAN.addresses, ["addresses reserved", "addresses released"]],
  [SPAN.alias, ["memory of another's opened", "memory of another's closed"]], [SPAN.node, ["graph node made", "graph node ended"]],
]);

const spanEvents = new Map<number | null, readonly Event[]>();

/** Starts and ends of a device's spans, in order. */
function eventsOf(spans: Spans, device: number | null): readonly Event[] {
  const { seqs, times } = spans, timeOf = (seq: number) => times[lastUpTo(seqs, seq)] ?? 0;
  return spans.all.flatMap((of): Event[] => {
    const words = SPAN_WORDS.get(of.kind);
    // Things that belong to no device, such as reserved addresses, are shown for any device.
    if (!words || (of.device !== null && of.device !== device)) return [];
    const on = of.kind === SPAN.mapping ? `handle 0x${of.handle.toString(16)}` : of.kind === SPAN.node ? `graph 0x${of.handle.toString(16)}` : "";
    const event = (seq: number, what: string): Event => ({ seq, time: timeOf(seq), what, bytes: of.bytes, address: of.address, of: on });
    return [event(of.made, words[0]), ...(of.ended < Infinity ? [event(of.ended, words[1])] : [])];
  }).sort((a, b) => a.seq - b.seq);
}

/** The events around an event, at most as many as are shown. */
function near(sorted: readonly Event[], seq: number): Event[] {
  const after = sorted.findIndex((of) => of.seq > seq), end = after < 0 ? sorted.length : after;
  return sorted.slice(Math.max(0, end - AROUND), end + AROUND);
}

/** The sources of events. */
export interface Sources {
  histories: readonly History[];
  spans: Spans;
  device: number | null;
  failures: readonly Event[];
}

function otherEvents({ spans, device, failures }: Sources, only: Only | null): readonly Event[][] {
  const ofSpans = spanEvents.get(device) ?? eventsOf(spans, device);
  spanEvents.set(device, ofSpans);
  const takes = (of: Event) => !only || (typeof of.of === "string" && only.others(of.of));
  return [ofSpans.filter(takes), failures.filter(takes)];
}

/** The number of events in the page. */
export function countEvents(from: Sources, only: Only | null): number {
  const blocks = sumOf(from.histories, (of) => sumOf(indexesFor(of, only), ({ ticks }) => ticks.length));
  return blocks + sumOf(otherEvents(from, only), (of) => of.length);
}

/** The events around one, in order: of a device's blocks and spans, and failures, as far as they are in the page. */
export function eventsAround(seq: number, from: Sources, only: Only | null): Event[] {
  const { histories } = from;
  const all = [...histories.flatMap((of) => aroundIn(of, seq, only)), ...otherEvents(from, only).flatMap((of) => near(of, seq))];
  return near(all.filter((of) => isInside(histories[0] ?? {}, of.seq)).sort((a, b) => a.seq - b.seq), seq);
}
