// Which part of a map's bars is shown: zoomed and moved by keys, the wheel and buttons. Each map keeps its own.

import { type MapName, state } from "./state";

/** A row is never narrower. */
export const LEAST_WIDE = 8;
/** How many times as wide as the page a map may be. */
const MOST = 1 << 20;

interface Zoom {
  times: number;
  /** What is at the left edge, as a share of the widest bar. */
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

/** The map that many times as wide; what stands at a place from 0 to 1 stays there. */
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

/** Moves the map so that a place of the widest bar is in it. */
export function showPlace(from: number, to: number): void {
  const { times, left } = zoomNow();
  if (from < left || to > left + 1 / times) keep(times, (from + to) / 2 - 0.5 / times);
}
