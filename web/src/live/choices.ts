// The choices for the table.

import { fill, keepingFocus, make, valueOf } from "../lib/dom";
import { goTo } from "./past";
import { KINDS, choice, redraw, show, shown, view } from "./state";
import { connect } from "./stream";
import { BY, LEVELS, MOMENTS, SORTS } from "./words";

/** Milliseconds without typing before the filter applies. */
const PAUSE = 250;

type Name = keyof typeof choice;

let drawn = "", typing: number | undefined;

function choose(name: Name, value: string): void {
  choice[name] = value;
  view.paused = false;
  redraw("choices");
  connect();
  if (view.past) void goTo(view.past.at, view.past.name);
}

function pause(): void {
  view.paused = !view.paused;
  redraw("choices");
  KINDS.forEach(show);
}

function select(name: Name, label: string, options: Record<string, string>): HTMLLabelElement {
  const list = Object.entries(options).map(([value, text]) => make("option", { value, selected: value === choice[name], text }));
  return make("label", {}, [label, make("select", { id: name, on: { change: (event) => { choose(name, valueOf(event)); } } }, list)]);
}

/** Redrawn only when it changes, so that an open list stays open. */
export function drawChoices(): void {
  const devices: Record<string, string> = { "": "all" };
  for (const on of shown.now?.devices ?? []) devices[on.device] = `GPU ${on.device}`;
  const now = JSON.stringify([choice, view.paused, Object.keys(devices)]);
  if (now === drawn) return;
  drawn = now;
  const filter = document.getElementById("filter") ?? make("input", { type: "search", id: "filter", placeholder: "rows that contain",
    maxlength: 200, "aria-label": "Only rows that contain this", on: { input: typed } });
  keepingFocus(() => fill("choices",
    select("by", "Rows of", BY), select("level", "Level", { "": "the level that shows most", ...LEVELS }), select("moment", "Moment", MOMENTS),
    Object.keys(devices).length > 2 && select("device", "Device", devices), select("sort", "Order", SORTS), filter,
    make("button", { type: "button", id: "pause", "aria-pressed": String(view.paused), text: view.paused ? "Go on" : "Stop here", on: { click: pause } })));
}

function typed(event: Event): void {
  const value = valueOf(event);
  clearTimeout(typing);
  typing = setTimeout(() => { choose("filter", value); }, PAUSE);
}
