// The chart's places: times from left to right, and the points of the view.

import { byId } from "../lib/dom";
import { item, last, sumOf } from "../lib/item";
import type { Point } from "./data";
import { type Span, data, state } from "./state";

/** Room beside and above the plot, in the units of the chart, which are pixels. */
export const LEFT = 72, RIGHT = 12, TOP = 10, HIGH = 300;
const NARROWEST = 300;

let wide = 0;

/** How wide the chart is: as the page has room for. */
export function width(): number {
  // A browser that is asked for it lays out what has changed: it is asked once.
  return (wide ||= Math.max(NARROWEST, byId("chart").clientWidth));
}

/** The page may have more room, or less. */
export function measureAgain(): void {
  wide = 0;
}

export function plotWidth(): number {
  return width() - LEFT - RIGHT;
}

/** What a fold has of an axis, and what all of them have at most (analyzer/src/views/timeline/folds.rs). */
const FOLD = 0.02, ALL_FOLDS = 0.24;

/** An axis of time: stretches of one scale, with narrow folds between them. */
export class TimeAxis {
  /** Where the scale changes: times, and their places from 0 to 1. */
  private readonly times: number[];
  private readonly shares: number[];
  readonly folds: readonly (readonly [number, number])[];

  constructor([from, to]: Span) {
    // A fold of which only a part is in the view is none: it is what is looked at.
    this.folds = data.folds.filter(([begin, end]) => begin >= from && end <= to);
    const folded = sumOf(this.folds, ([begin, end]) => end - begin);
    const narrow = Math.min(FOLD, ALL_FOLDS / Math.max(this.folds.length, 1));
    const scale = (1 - narrow * this.folds.length) / Math.max(to - from - folded, 1);
    this.times = [from];
    this.shares = [0];
    for (const [begin, end] of this.folds) {
      const share = last(this.shares) + (begin - last(this.times)) * scale;
      this.times.push(begin, end);
      this.shares.push(share, share + narrow);
    }
    this.times.push(to);
    this.shares.push(1);
  }

  /** The place of a time, from 0 to 1; beyond the axis as if the scale went on. */
  share(time: number): number {
    return between(this.times, this.shares, time);
  }

  time(share: number): number {
    return Math.round(between(this.shares, this.times, Math.max(0, Math.min(1, share))));
  }

  /** The time of a view that is not folded. */
  unfolded(): number {
    return last(this.times) - item(this.times, 0) - sumOf(this.folds, ([begin, end]) => end - begin);
  }
}

/** What stands in `to` where `value` stands in `from`; both rise. */
function between(from: readonly number[], to: readonly number[], value: number): number {
  let piece = 1;
  while (piece < from.length - 1 && item(from, piece) < value) piece++;
  const begin = item(from, piece - 1), end = item(from, piece), low = item(to, piece - 1), high = item(to, piece);
  return end > begin ? low + ((value - begin) / (end - begin)) * (high - low) : high;
}

let axis: TimeAxis | null = null, axisOf: Span | null = null;

/** The axis of the view. */
export function viewAxis(): TimeAxis {
  if (!axis || axisOf !== state.view) [axis, axisOf] = [new TimeAxis(state.view), state.view];
  return axis;
}

export function across(at: number): number {
  return LEFT + viewAxis().share(at) * plotWidth();
}

/** The time at a place between the plot's left edge (0) and its right one (1). */
export function timeAtShare(share: number): number {
  return viewAxis().time(share);
}

export function timeAt(x: number): number {
  return timeAtShare((x - LEFT) / plotWidth());
}

export function isInView(at: number): boolean {
  const [from, to] = state.view;
  return at >= from && at <= to;
}

/** The points of the view, with the last one before it at its edge, and the newest held until its end. */
export function visible(points: readonly Point[]): Point[] {
  const [from, to] = state.view;
  const before = points.filter((point) => point[0] < from).at(-1);
  const inside = points.filter((point) => isInView(point[0]));
  if (before) inside.unshift([from, ...before.slice(1)]);
  if (inside.length) inside.push([to, ...last(inside).slice(1)]);
  return inside;
}

/** The outline of points as steps; with a bottom, of the area above it. */
export function stepPath(points: readonly Point[], top: (point: Point) => number, bottom?: (point: Point) => number): string {
  const first = points[0];
  if (!first) return "";
  const x = (point: Point) => across(point[0]).toFixed(1);
  let path = `M${x(first)} ${top(first).toFixed(1)}`;
  for (const point of points.slice(1)) path += `H${x(point)}V${top(point).toFixed(1)}`;
  if (!bottom) return path;
  path += `V${bottom(last(points)).toFixed(1)}`;
  for (let place = points.length - 2; place >= 0; place--) {
    const point = item(points, place);
    path += `V${bottom(point).toFixed(1)}H${x(point)}`;
  }
  return `${path}Z`;
}
