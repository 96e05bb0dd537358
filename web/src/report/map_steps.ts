// Moves from event to event of the shown map, and from failure to failure.

import { item } from "../lib/item";
import type { Failure } from "./data";
import { HANDLE, type History, NEVER, lastUpTo } from "./history";
import { SPAN, type SpanKind } from "./spans";
import { type MapName, allSpans, chooseEvent, data, device, histories, hostHistory, moment, state } from "./state";

/** Things other than blocks that change a map. */
const SPANS_OF: Record<MapName, readonly SpanKind[]> = {
  segments: [SPAN.mapping], driver: [SPAN.alias], vmm: [SPAN.mapping, SPAN.addresses], pools: [SPAN.pool, SPAN.graphs, SPAN.node],
};

const known = new Map<string, Float64Array>();

/** Events at which a handle's memory began or ended. */
function ofHandles(driver: History): number[] {
  const { seqs } = driver.ticks, found = [];
  for (let block = 0; block < driver.count; block++) {
    if (!(item(driver.kinds, block) & HANDLE)) continue;
    const ended = item(driver.ended, block);
    found.push(item(seqs, item(driver.made, block)));
    if (ended !== NEVER) found.push(item(seqs, ended));
  }
  return found;
}

function eventsOf(map: MapName): Float64Array {
  const found = new Set<number>(), add = (seqs: Iterable<number>) => { for (const seq of seqs) found.add(seq); };
  for (const of of histories()) {
    if (map === "vmm") add(of.level === "driver" ? ofHandles(of) : []);
    else if (map !== "driver" || of.level === "driver") add(of.ticks.seqs);
  }
  const host = hostHistory();
  if (map === "driver" && host) add(host.ticks.seqs);
  for (const { kind, made, ended } of allSpans()?.all ?? []) {
    if (SPANS_OF[map].some((one) => one === kind)) add(ended < Infinity ? [made, ended] : [made]);
  }
  return Float64Array.from(found).sort();
}

/** The events of the shown map, in order. */
export function mapEvents(): Float64Array {
  const key = `${state.device} ${state.map}`, found = known.get(key) ?? eventsOf(state.map);
  known.set(key, found);
  return found;
}

/** Moves to the map's event before or after the point in time. */
export function stepMap(by: number): void {
  const seqs = mapEvents(), now = moment()?.seq ?? 0, at = lastUpTo(seqs, now);
  const next = seqs[by > 0 ? at + 1 : seqs[at] === now ? at - 1 : at];
  if (next !== undefined) chooseEvent(next);
}

/** Moves to the failure before or after the point in time. */
export function stepFailures(by: number): void {
  const seq = moment()?.seq ?? 0;
  const all = data.failures.filter((of) => of.device === device().device);
  const next = by > 0 ? all.find((of) => of.seq > seq) : all.filter((of) => of.seq < seq).at(-1);
  if (next) chooseEvent(next.seq);
}

/** The device's failure at the point in time, if there is one. */
export function failureNow(): Failure | undefined {
  const seq = moment()?.seq ?? 0;
  return data.failures.find((of) => of.device === device().device && of.seq === seq);
}
