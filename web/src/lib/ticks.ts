// Positions and labels of an axis' ticks.

import { time } from "./format";
import { last } from "./item";

const SECONDS = [20, 30, 60, 120, 300, 600, 1800, 3600, 7200, 14400, 43200, 86400].map((s) => s * 1e9);

/** Bytes in powers of two, so that ticks are whole KiB, MiB and GiB. */
export function byteStep(most: number): number {
  let step = 1;
  while (most / step > 6) step *= 2;
  return step;
}

/** Up to ten seconds 1, 2 and 5 of each power of ten, then steps of a clock. */
export function timeStep(span: number): number {
  const steps: number[] = [];
  for (let power = 1; power < 1e10; power *= 10) for (const digit of [1, 2, 5]) steps.push(power * digit);
  steps.push(...SECONDS);
  return steps.find((step) => span / step <= 8) ?? last(steps);
}

export function tickText(at: number, step: number): string {
  if (step >= 1e10) return time(at).replace(/\.\d+$/, "");
  const decimals = Math.max(0, 9 - Math.floor(Math.log10(step)));
  return `${(at / 1e9).toFixed(decimals)} s`;
}
