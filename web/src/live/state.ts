// What is chosen, what came last, and what of it is shown.

import type { Course, Now, Table } from "./data";

/** What the table is asked for. Each is a part of the query. */
export const choice = {
  by: "line",
  level: document.body.dataset["level"] ?? "",
  moment: "now",
  device: document.body.dataset["device"] ?? "",
  sort: "bytes",
  filter: "",
};

/** What the server sends. */
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
  /** The moment that is shown in the place of now: `at` is event:N or time:N. */
  past: null as { at: string; name: string | undefined } | null,
};

/** What is drawn: what the server sends, the choices, where the page stands in time. */
export type Part = Kind | "choices" | "place";

const draws = new Map<Part, () => void>();

export function on(part: Part, draw: () => void): void {
  draws.set(part, draw);
}

export function redraw(part: Part): void {
  draws.get(part)?.();
}

/** Shows the newest of a kind. In the past only the course goes on. */
export function show(kind: Kind): void {
  if (view.paused || !newest[kind] || (view.past && kind !== "course")) return;
  Object.assign(shown, { [kind]: newest[kind] });
  redraw(kind);
}

/** The token is that of the page's own address. */
export function query(): URLSearchParams {
  return new URLSearchParams({ token: new URLSearchParams(location.search).get("token") ?? "" });
}
