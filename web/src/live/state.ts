// The choices, the newest data, and the data that is shown.

import type { Course, Now, Table } from "./data";

/** The request for the table. Each field is a part of the query. */
export const choice = {
  by: "line",
  level: document.body.dataset["level"] ?? "",
  moment: "now",
  device: document.body.dataset["device"] ?? "",
  sort: "bytes",
  filter: "",
};

/** The data that the server sends. */
export interface Events {
  now: Now | null;
  course: Course[] | null;
  table: Table | null;
}

export type Kind = keyof Events;
export const KINDS: readonly Kind[] = ["now", "course", "table"];

export const newest: Events = { now: null, course: null, table: null };
export const shown: Events = { now: null, course: null, table: null };

export const view = {
  paused: false,
  /** The past point in time that is shown: `at` is event:N or time:N. */
  past: null as { at: string; name: string | undefined } | null,
};

/** The parts that are drawn: data from the server, the choices, the point in time. */
export type Part = Kind | "choices" | "place";

const draws = new Map<Part, () => void>();

export function on(part: Part, draw: () => void): void {
  draws.set(part, draw);
}

export function redraw(part: Part): void {
  draws.get(part)?.();
}

/**
 * Shows the newest data of a kind. While the past is shown, only the memory over time is
 * updated.
 */
export function show(kind: Kind): void {
  if (view.paused || !newest[kind] || (view.past && kind !== "course")) return;
  Object.assign(shown, { [kind]: newest[kind] });
  redraw(kind);
}

/** The token comes from the page's own URL. */
export function query(): URLSearchParams {
  return new URLSearchParams({ token: new URLSearchParams(location.search).get("token") ?? "" });
}
