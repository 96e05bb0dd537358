// The visible part of a map's bars, zoomed and moved by keys, the wheel and buttons. Each map has its own.

import { type MapName, state } from "./state";

/** The smallest width of a row. */
export const LEAST_WIDE = 8;
/** The highest zoom, as a multiple of the page's width. */
const MOST = 1 << 20;

interface Zoom {
  times: number;
  /** The position of the left edge, as a share of the widest bar. */
  left: number;
}

const zooms = new Map<MapName, Zoom>();

export function zoomNow(): Readonly<Zoom> {
  return zooms.get(state.map) ?? { times: 1, left: 0 };
}

function keep(times: number, left: number): void {
  const within = Math.max(1, Math.min(MOST, times));
  zooms.set(state.map, { times: within, left: Math.max(0, Math.min(1 - 1 / within, left)) });
}

/** Scales the map by a factor; the content at a position from 0 to 1 stays there. */
export function zoomAt(place: number, by: number): void {
  const { times, left } = zoomNow(), at = left + place / times, next = Math.max(1, Math.min(MOST, times * by));
  keep(next, at - place / next);
}

export function panZoom(share: number): void {
  const { times, left } = zoomNow();
  keep(times, left + share / times);
}

export function showAll(): void {
  zooms.delete(state.map);
}

/** Moves the map so that a position of the widest bar is visible. */
export function showPlace(from: number, to: number): void {
  const { times, left } = zoomNow();
  if (from < left || to > left + 1 / times) keep(times, (from + to) / 2 - 0.5 / times);
}
