// Mappings, address space and reservations with their lifetimes, written by analyzer/src/views/page/spans.rs.

import { item } from "../lib/item";
import { Numbers, inflated } from "../lib/unpack";
import type { PageSpans } from "./data";

/** The values of SpanKind in analyzer/src/views/past_blocks/spans.rs. */
export const SPAN = { mapping: 0, addresses: 1, pool: 2, graphs: 3, node: 4, alias: 5 } as const;
export type SpanKind = (typeof SPAN)[keyof typeof SPAN];

export interface Span {
  kind: number;
  /** null: no device. */
  device: number | null;
  address: number;
  bytes: number;
  /** For a mapping the mapped handle, for a node its graph. */
  handle: number;
  /** Events. `ended` is Infinity if it did not end. */
  made: number;
  ended: number;
}

export interface Spans {
  all: readonly Span[];
  /** Events at which one began or ended, and their times. */
  seqs: Float64Array;
  times: Float64Array;
  whole: boolean;
  stretches: readonly [number, number][];
  nodesLeftOut: number;
}

const NO_DEVICE = 255;

export async function unpackedSpans(from: PageSpans): Promise<Spans> {
  const read = new Numbers(await inflated(from.columns));
  const column = (length: number, of: (before: number) => number) => {
    let before = 0;
    return Float64Array.from({ length }, () => (before = of(before)));
  };
  const seqs = column(from.events, (before) => before + read.next());
  const times = column(from.events, (before) => before + read.signed());
  const kinds = column(from.spans, () => read.next());
  const devices = column(from.spans, () => read.next());
  const addresses = read.sums(from.spans);
  const bytes = column(from.spans, () => read.next());
  const handles = read.sums(from.spans);
  const made = column(from.spans, (before) => before + read.next());
  const later = column(from.spans, () => read.next());
  const all = [...kinds.keys()].map((place): Span => {
    const device = item(devices, place), began = item(made, place), more = item(later, place);
    return {
      kind: item(kinds, place), device: device === NO_DEVICE ? null : device, address: item(addresses, place), bytes: item(bytes, place),
      handle: item(handles, place), made: item(seqs, began), ended: more ? item(seqs, began + more - 1) : Infinity,
    };
  });
  return { all, seqs, times, whole: from.whole, stretches: from.stretches, nodesLeftOut: from.nodes_left_out };
}

/** The spans of a kind that existed just after an event, sorted by address. */
export function spansAt(spans: Spans, kind: SpanKind, seq: number): Span[] {
  return spans.all.filter((of) => of.kind === kind && of.made <= seq && of.ended > seq).sort((a, b) => a.address - b.address);
}
