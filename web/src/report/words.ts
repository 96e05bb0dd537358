// Words that several parts of the page share.

import { make } from "../lib/dom";
import { bytes, count, time } from "../lib/format";
import { figure } from "../lib/figure";
import type { Moment } from "./data";
import type { CategoryBytes, Holder, Line } from "./sections_data";
import { data } from "./state";

/** A device by its number. */
export function gpu(device: number | null): string {
  return device === null ? "no device" : `GPU ${device}`;
}

/** What stands in the caption of a table that is of the whole run where the page is not. */
export function ofRun(): string {
  return data.part === null ? "" : ", of the whole run";
}

/** What most of a line's tensors are for. */
function purpose([most, ...others]: readonly CategoryBytes[]): string {
  return most ? ` (${others.length ? "mostly " : ""}${most.category})` : "";
}

/** Lines with what they hold, each figure with its exact bytes. */
export function holders(owners: readonly Holder[]): (Node | string)[] {
  return owners.flatMap((of, place) => [place ? ", " : "", figure(of.bytes), ` ${`${of.line} ${of.function}`.trim()}${purpose(of.categories ?? [])}`]);
}

/** A line's cell: its path on pointing at it. */
export function lineCell(of: Line): HTMLElement {
  return make("span", { text: of.line, title: of.path || undefined });
}

/** How far a moment is from what was asked for; empty: it is that. */
export function apart(asked: { seq: number; time: number }, then: Pick<Moment, "seq" | "time">): string {
  const events = Math.abs(then.seq - asked.seq), nanos = Math.abs(then.time - asked.time);
  if (!events) return "";
  const long = nanos >= 1e9 ? `${(nanos / 1e9).toFixed(1)} s` : nanos >= 1e6 ? `${(nanos / 1e6).toFixed(1)} ms` : `${(nanos / 1e3).toFixed(1)} µs`;
  return `${count(events)} ${events === 1 ? "event" : "events"} and ${long} ${then.seq < asked.seq ? "earlier" : "later"}`;
}

/** A moment by its time and event. */
export function atMoment(of: { seq: number; time: number }): string {
  return `${time(of.time, data.to - data.from)}, event ${count(of.seq)}`;
}

/** A figure that is none: the bytes of a change from step to step. */
export function signed(value: number): string {
  return value > 0 ? `+${bytes(value)}` : bytes(value);
}
