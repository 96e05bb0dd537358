// Keys of the whole page, and the list of all keys.

import { byId, fill, make } from "../lib/dom";
import { jump } from "./jumps";
import { stepFailures } from "./maps";
import { focusSearch } from "./search";
import { chooseMoment, device, pin, state } from "./state";

const PAGE_KEYS: [key: string, what: string, does: () => void][] = [
  ["/", "search blocks and frames; again: frames only, lines", focusSearch],
  ["[", "the moment before", () => { chooseMoment(state.moment - 1); }],
  ["]", "the moment after", () => { chooseMoment(state.moment + 1); }],
  ["p", "the peak", () => { chooseMoment(device().moments.findIndex((of) => of.kind === "peak")); }],
  ["f", "the next failure", () => { stepFailures(1); }],
  ["F", "the failure before", () => { stepFailures(-1); }],
  ["Escape", "unpin the block", () => { pin(null); }],
  ["?", "these keys", () => { help(); }],
];

const CHART_KEYS: [key: string, what: string][] = [
  ["← →", "the event before, after"], ["Shift ← →, Page Up, Page Down", "move the view"], ["+ −", "zoom in, out"], ["0", "the whole run, all bytes"],
  ["Enter", "zoom to the selection"], ["↑ ↓", "pin the block above, below"], ["Ctrl and wheel, pinch", "zoom about the pointer"],
  ["> <, Shift and wheel", "zoom in bytes, out"], ["Shift ↑ ↓", "move the zoomed bytes"], ["e", "enlarge the pinned block"], ["a", "across time, or event by event"],
];

const SEARCH_KEYS: [key: string, what: string][] = [["Enter", "the next block found"], ["Shift Enter", "the one before"]];

const MAP_KEYS: [key: string, what: string][] = [
  ["← →", "the map's event before, after"], ["↑ ↓", "the piece before, after: it is read out"], ["Enter", "pin it"],
  ["+ −, Ctrl and wheel", "zoom in, out"], ["Shift ← →, Shift and wheel", "move the map"], ["0", "the whole map"],
];

const EVENT_KEYS: [key: string, what: string][] = [["↑ ↓", "the event before, after"]];

const FLAME_KEYS: [key: string, what: string][] = [
  ["↑ ↓", "caller, widest call; in flames the other way round"], ["← →", "neighbours"], ["Enter", "enlarge the frame"], ["Escape", "show all"],
];

const MODULE_KEYS: [key: string, what: string][] = [
  ["→", "open a module, or go into it"], ["←", "close it, or go to the one it is part of"], ["↑ ↓", "the row above, below"],
];

function help(): void {
  const list = (title: string, keys: readonly (readonly [string, string, ...unknown[]])[]) => [
    make("h3", { text: title }),
    make("dl", {}, keys.flatMap(([key, what]) => [make("dt", {}, [make("kbd", { text: key })]), make("dd", { text: what })])),
  ];
  fill("help", make("h2", { id: "help-head", text: "Keys" }),
    ...list("Anywhere", PAGE_KEYS), ...list("In the chart", CHART_KEYS), ...list("In the search", SEARCH_KEYS), ...list("In a map", MAP_KEYS), ...list("In the table of events", EVENT_KEYS), ...list("In the flamegraph", FLAME_KEYS),
    ...list("In the tree of modules", MODULE_KEYS),
    make("form", { method: "dialog" }, [make("button", { text: "Close" })]));
  byId("help", HTMLDialogElement).showModal();
}

export function startKeys(): void {
  addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    const of = event.target;
    if (of instanceof HTMLInputElement || of instanceof HTMLSelectElement || (of instanceof Element && of.closest("dialog"))) return;
    const found = PAGE_KEYS.find(([key]) => key === event.key);
    if (!found) return;
    jump(found[2]);
    event.preventDefault();
  });
  byId("keys").addEventListener("click", help);
}
