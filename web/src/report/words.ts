// Text that several parts of the page share.

import { make } from "../lib/dom";
import { bytes, count, time } from "../lib/format";
import { figure } from "../lib/figure";
import type { Moment } from "./data";
import type { CategoryBytes, Holder, Line } from "./sections_data";
import { data } from "./state";

/** A device's label, by its ordinal. */
export function gpu(device: number | null): string {
  return device === null ? "no device" : `GPU ${device}`;
}

/** The caption's addition for a table of the whole run, if the page covers only a part of it. */
export function ofRun(): string {
  return data.part === null ? "" : ", of the whole run";
}

/** The category of most of a line's tensors. */
function purpose([most, ...others]: readonly CategoryBytes[]): string {
  return most ? ` (${others.length ? "mostly " : ""}${most.category})` : "";
}

/** Lines with their memory, each figure with its exact bytes. */
export function holders(owners: readonly Holder[]): (Node | string)[] {
  return owners.flatMap((of, place) => [place ? ", " : "", figure(of.bytes), ` ${`${of.line} ${of.function}`.trim()}${purpose(of.categories ?? [])}`]);
}

/** A line's cell; its tooltip is the path. */
export function lineCell(of: Line): HTMLElement {
  return make("span", { text: of.line, title: of.path || undefined });
}

/** The distance of a point in time from the requested one; empty if they are equal. */
export function apart(asked: { seq: number; time: number }, then: Pick<Moment, "seq" | "time">): string {
  const events = Math.abs(then.seq - asked.seq), nanos = Math.abs(then.time - asked.time);
  if (!events) return "";
  const long = nanos >= 1e9 ? `${(nanos / 1e9).toFixed(1)} s` : nanos >= 1e6 ? `${(nanos / 1e6).toFixed(1)} ms` : `${(nanos / 1e3).toFixed(1)} µs`;
  return `${count(events)} ${events === 1 ? "event" : "events"} and ${long} ${then.seq < asked.seq ? "earlier" : "later"}`;
}

/** A point in time by its time and event. */
export function atMoment(of: { seq: number; time: number }): string {
  return `${time(of.time, data.to - data.from)}, event ${count(of.seq)}`;
}

/** A figure with its sign: the bytes of a change from step to step. */
export function signed(value: number): string {
  return value > 0 ? `+${bytes(value)}` : bytes(value);
}
