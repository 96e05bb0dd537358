// Times and differences as text.

import { bytes, count } from "../lib/format";
import { tickText, timeStep } from "../lib/ticks";
import type { Since } from "./data";
import { data } from "./job";

export function clock(nanos: number): string {
  const at = new Date(data.from_unix_ms + nanos / 1e6);
  return `${at.toISOString().slice(11, 23)} UTC`;
}

export function signed(value: number): string {
  return (value > 0 ? "+" : "") + bytes(value);
}

/** A time from the heatmap's start, to a hundredth of its axis' ticks. */
export function timeFrom(nanos: number): string {
  return tickText(nanos, timeStep(data.column_ns * data.columns) / 100);
}

const DURATIONS: [string, number][] = [["s", 1e9], ["ms", 1e6], ["µs", 1e3]];

export function durationText(nanos: number): string {
  for (const [unit, size] of DURATIONS) {
    if (nanos >= size) return `${(nanos / size).toPrecision(3)} ${unit}`;
  }
  return `${nanos} ns`;
}

export function since(of: Since | null): string {
  if (!of) return "";
  if (of.last_step === 1) return ", from the first step";
  if (of.first_step === 1) return `, since step ${count(of.last_step)} or earlier`;
  return `, since step ${count(of.first_step)}${of.first_step === of.last_step ? "" : ` to ${count(of.last_step)}`}`;
}
