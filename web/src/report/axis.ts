// Positions in the chart: times from left to right, and the points of the view.

import { byId } from "../lib/dom";
import { item, last, sumOf } from "../lib/item";
import type { Point } from "./data";
import { type History, lastUpTo } from "./history";
import { type Span, data, history, state } from "./state";

/** Margins of the plot and its height, in the chart's units, which are pixels. */
export const LEFT = 72, RIGHT = 12, TOP = 10, HIGH = 300;
const NARROWEST = 300;

let wide = 0;

/** The width of the chart: the available width. */
export function width(): number {
  // Reading the width makes a browser compute the layout, so it is read once.
  return (wide ||= Math.max(NARROWEST, byId("chart").clientWidth));
}

/** Call it when the available width changes. */
export function measureAgain(): void {
  wide = 0;
}

export function plotWidth(): number {
  return width() - LEFT - RIGHT;
}

/** The share of an axis that a fold takes, and the most that all folds take (analyzer/src/views/timeline/folds.rs). */
const FOLD = 0.02, ALL_FOLDS = 0.24;

/** An axis of time: intervals of one scale, with narrow folds between them. */
export class TimeAxis {
  /** The points at which the scale changes: times, and their positions from 0 to 1. */
  private readonly times: number[];
  private readonly shares: number[];
  readonly folds: readonly (readonly [number, number])[];

  constructor([from, to]: Span) {
    // A fold that is only partly in the view is unfolded, because it is what the user looks at.
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

  /** The position of a time, from 0 to 1; beyond the axis the scale continues. */
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

/** The value of `to` that corresponds to `value` in `from`, by linear interpolation; both are ascending. */
function between(from: readonly number[], to: readonly number[], value: number): number {
  let piece = 1;
  while (piece < from.length - 1 && item(from, piece) < value) piece++;
  const begin = item(from, piece - 1), end = item(from, piece), low = item(to, piece - 1), high = item(to, piece);
  return end > begin ? low + ((value - begin) / (end - begin)) * (high - low) : high;
}

/** An axis of a level's events, all with the same width. Other events are between the positions of two of them. */
export class EventAxis {
  readonly folds: readonly (readonly [number, number])[] = [];
  /** The first tick, and the number of ticks. */
  readonly first: number;
  readonly count: number;

  constructor(readonly of: History, [from, to]: Span) {
    this.first = Math.max(0, lastUpTo(of.ticks.times, from));
    this.count = Math.max(1, lastUpTo(of.ticks.times, to) - this.first + 1);
  }

  share(time: number): number {
    const { times } = this.of.ticks, tick = lastUpTo(times, time), begin = times[tick] ?? data.from, end = times[tick + 1] ?? data.to;
    return (tick - this.first + (end > begin ? Math.min(1, (time - begin) / (end - begin)) : 0)) / this.count;
  }

  /** The tick at a position, which may be beyond the axis. */
  tick(share: number): number {
    return this.first + Math.floor(share * this.count);
  }

  time(share: number): number {
    const { times } = this.of.ticks;
    return times[Math.max(0, Math.min(times.length - 1, this.first + this.count - 1, this.tick(Math.max(0, share))))] ?? data.from;
  }

  /** From the tick at one position to the one before another; the ends of the run for positions beyond them. */
  span(left: number, right: number): Span {
    const { times } = this.of.ticks, first = this.first + Math.round(left * this.count), end = this.first + Math.round(right * this.count) - 1;
    return [first <= 0 ? data.from : times[first] ?? data.from, end >= times.length - 1 ? data.to : times[Math.max(first, end)] ?? data.to];
  }
}

let axis: TimeAxis | EventAxis | null = null, axisOf: Span | null = null;

/** The level whose events the chart's axis shows, if it does; the level must have blocks. */
function axisLevel(): History | undefined {
  return state.axis === "event" && state.picture === "blocks" ? history() : undefined;
}

/** The axis of the view. */
export function viewAxis(): TimeAxis | EventAxis {
  const of = axisLevel(), known = axis instanceof EventAxis ? axis.of : undefined;
  if (!axis || axisOf !== state.view || known !== of) [axis, axisOf] = [of ? new EventAxis(of, state.view) : new TimeAxis(state.view), state.view];
  return axis;
}

/** The position of an event of the level; for other events, that of their time. */
export function acrossEvent(seq: number, time: number): number {
  const now = viewAxis();
  if (!(now instanceof EventAxis)) return across(time);
  const tick = lastUpTo(now.of.ticks.seqs, seq);
  return now.of.ticks.seqs[tick] === seq ? LEFT + ((tick - now.first) / now.count) * plotWidth() : across(time);
}

/** The last tick before each of these columns, and the last tick of all. */
export function columnEdges(of: History, columns: number): Int32Array {
  const now = viewAxis(), out = new Int32Array(columns + 1), { times } = of.ticks;
  let at = -1;
  for (let x = 0; x <= columns; x++) {
    out[x] = at = now instanceof EventAxis ? Math.min(now.first + now.count - 1, now.tick(x / columns)) : lastUpTo(times, now.time(x / columns), at);
  }
  return out;
}

export function across(at: number): number {
  return LEFT + viewAxis().share(at) * plotWidth();
}

/** The time at a position between the plot's left edge (0) and its right one (1). */
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

/**
 * The points of the view. The last one before the view is placed at its edge, and the newest is extended to its end.
 */
export function visible(points: readonly Point[]): Point[] {
  const [from, to] = state.view;
  const before = points.filter((point) => point[0] < from).at(-1);
  const inside = points.filter((point) => isInView(point[0]));
  if (before) inside.unshift([from, ...before.slice(1)]);
  if (inside.length) inside.push([to, ...last(inside).slice(1)]);
  return inside;
}

/** The outline of points as steps; with `bottom`, of the area above it. */
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
