// The chart's places: times from left to right, and the points of the view.

import { byId } from "../lib/dom";
import { item, last } from "../lib/item";
import type { Point } from "./data";
import { state } from "./state";

/** Room beside and above the plot, in the units of the chart, which are pixels. */
export const LEFT = 72, RIGHT = 12, TOP = 10, HIGH = 300;
const NARROWEST = 300;

/** How wide the chart is: as the page has room for. */
export function width(): number {
  return Math.max(NARROWEST, byId("chart").clientWidth);
}

export function plotWidth(): number {
  return width() - LEFT - RIGHT;
}

export function across(at: number): number {
  const [from, to] = state.view;
  return LEFT + ((at - from) / Math.max(to - from, 1)) * plotWidth();
}

/** The time at a place between the plot's left edge (0) and its right one (1). */
export function timeAtShare(share: number): number {
  const [from, to] = state.view;
  return Math.round(from + Math.max(0, Math.min(1, share)) * (to - from));
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
