// Positions of ranks in the heatmap: a row for each, or for several if there are more ranks than lines.

import { item } from "../lib/item";
import type { Group } from "./data";
import { data, order, placeOf } from "./job";
import { state } from "./state";

/** The highest total of the rows, the height of a heading, and the highest row. */
export const HIGH = 640, HEADING = 18, TALL = 15;
/** With more groups there are no headings. */
const HEADINGS = 64;

/** From the top: a heading, or the rows of a group. */
export type Strip = { top: number; high: number } & ({ heading: Group } | { heading: null; first: number; tall: number; count: number });

export let strips: Strip[] = [], whole = 0;

export function layOut(): void {
  const headed = data.groups.length > 1 && data.groups.length <= HEADINGS;
  const room = HIGH - (headed ? data.groups.length * HEADING : 0);
  const fit = Math.min(TALL, Math.max(room, HIGH * 0.7) / Math.max(order.length, 1));
  const tall = state.tall ? TALL : fit >= 2 ? Math.floor(fit) : fit;
  strips = [];
  whole = 0;
  let first = 0;
  for (const group of data.groups) {
    if (headed) {
      strips.push({ top: whole, high: HEADING, heading: group });
      whole += HEADING;
    }
    const high = group.ranks.length * tall;
    strips.push({ top: whole, high, heading: null, first, tall, count: group.ranks.length });
    whole += high;
    first += group.ranks.length;
  }
  whole = Math.max(Math.ceil(whole), 1);
}

/** Indices of ranks: from, to. */
export type Places = [number, number];

/** Indices of the ranks between two heights. */
export function between(from: number, to: number): Places | null {
  let low = 0, high = strips.length - 1;
  while (low < high) {
    const half = (low + high + 1) >> 1;
    if (item(strips, half).top <= from) low = half;
    else high = half - 1;
  }
  const strip = strips[low];
  if (!strip || strip.heading || from >= strip.top + strip.high) return null;
  const begin = Math.min(Math.floor((from - strip.top) / strip.tall + 1e-6), strip.count - 1);
  const end = Math.min(Math.max(Math.ceil((to - strip.top) / strip.tall - 1e-6), begin + 1), strip.count);
  return [strip.first + begin, strip.first + end];
}

/** The top and the height of a rank's row. */
export function topOf(index: number): [top: number, tall: number] {
  const at = placeOf(index);
  for (const strip of strips) {
    if (!strip.heading && at >= strip.first && at < strip.first + strip.count) {
      return [strip.top + (at - strip.first) * strip.tall, strip.tall];
    }
  }
  throw new RangeError(`no row at place ${at}`);
}
