// The maps of memory at the shown point in time: the available ones, the chosen one, and the text around it.

import { byId, fill, make, say } from "../lib/dom";
import { figure } from "../lib/figure";
import { bytes, many } from "../lib/format";
import { item } from "../lib/item";
import { jump } from "./jumps";
import { hasPool, segmentsView } from "./map";
import { driverParts, driverView, hasHandles } from "./map_driver";
import { poolsView } from "./map_pools";
import { drawGroups, wholeMap, zoomMapBy } from "./map_rows";
import { stepFailures, stepMap } from "./map_steps";
import type { MapAt, MapView } from "./map_view";
import { vmmView } from "./map_vmm";
import { styled } from "./paint";
import { SPAN } from "./spans";
import { MAP_NAMES, type MapName, allSpans, chooseMap, data, device, histories, hostHistory, moment, state } from "./state";

export { stepFailures } from "./map_steps";

interface MapKind {
  name: string;
  caption: string;
  /** Whether the device has data for it. */
  is: (at: MapAt) => boolean;
  view: (at: MapAt) => MapView;
}

const OF_POOLS: readonly number[] = [SPAN.pool, SPAN.graphs, SPAN.node];
const OF_SPACE: readonly number[] = [SPAN.mapping, SPAN.addresses];

const MAPS: Record<MapName, MapKind> = {
  segments: {
    name: "PyTorch's segments", is: hasPool, view: (at) => (hasPool(at) ? segmentsView(at) : EMPTY),
    caption: "Each bar is a segment: memory that PyTorch's allocator took from the driver and cuts tensors from. A segment can be freed only if it is empty.",
  },
  driver: {
    name: "Other driver allocations", is: (at) => Boolean(at.driver) || Boolean(at.host), view: driverView,
    caption: "Each bar is an allocation that the program or a library took from the driver itself, grouped by the library that asked. Together with PyTorch's segments these are the driver level.",
  },
  vmm: {
    name: "Address space and VMM handles", view: vmmView, is: (at) => hasHandles(at.driver) || at.spans.all.some((of) => OF_SPACE.includes(of.kind) && (of.device === null || of.device === at.device)),
    caption: "Each bar is a range of reserved addresses; coloured where a handle (memory without an address, from cuMemCreate) is mapped. PyTorch's expandable segments are made of such handles.",
  },
  pools: {
    name: "Pools", view: poolsView, is: (at) => hasPool(at) || at.spans.all.some((of) => OF_POOLS.includes(of.kind) && of.device === at.device),
    caption: "Memory that only one user can reuse: PyTorch's pools (only one CUDA graph uses a private pool), CUDA's pools behind cudaMallocAsync, and memory that the driver keeps for graphs.",
  },
};

const HINT = "Point at a box for details, click to pin it. Left and right go from event to event, up and down from box to box.";
const EMPTY: MapView = { said: "", figures: [], legend: [], groups: [] };

function now(): MapAt | undefined {
  const then = moment(), spans = allSpans(), all = histories(), of = (level: string) => all.find((history) => history.level === level);
  if (!then || !spans) return undefined;
  return { seq: then.seq, device: device().device, hasPhysical: device().has_physical, tensors: of("tensor"), driver: of("driver"), host: hostHistory(), spans,
    levels: then.levels.map((level) => level.level) };
}

export function drawMaps(): void {
  const at = now(), offered = at ? MAP_NAMES.filter((name) => MAPS[name].is(at)) : [], [first] = offered;
  byId("map-section").hidden = !first;
  if (!at || !first) return;
  if (!offered.includes(state.map)) state.map = first;
  drawTabs(offered);
  saySum(at);
  const { caption, view } = MAPS[state.map], of = view(at);
  const isPyTorch = state.map === "segments" && data.allocator !== null;
  say("map-caption", isPyTorch ? `${caption} Here: the ${data.allocator}.` : caption);
  fill("map-figures", ...of.figures.map(([name, value]) => make("div", {}, [make("dt", { text: name }),
    make("dd", { text: bytes(value), title: many(value, "byte", "bytes"), "data-figure": name, "data-bytes": value })])));
  say("map-said", of.said);
  fill("map-legend", ...of.legend.map(({ name, colour, look }) => make("li", {}, [swatch(colour, look), name])));
  say("map-at", HINT);
  drawGroups("map", of.groups);
}

function swatch(colour: string, look = "full"): HTMLSpanElement {
  const plain = colour.startsWith("--") ? styled(colour) : colour, back = styled("--back");
  const style: Record<string, string> = {
    full: plain, outline: back, striped: `repeating-linear-gradient(135deg, ${plain} 0 3px, ${back} 3px 5px)`, low: `linear-gradient(${back} 50%, ${plain} 50%)`,
  };
  const border: Record<string, string> = look === "outline" ? { "border-color": plain, "border-width": "2px" } : {};
  return make("span", { class: "swatch", style: { background: style[look] ?? plain, ...border } });
}

/** Shows the driver's level as the sum of two maps. */
function saySum(at: MapAt): void {
  const { level, pool, others, leftOut } = driverParts(at);
  if (!at.driver) {
    fill("map-sum");
    return;
  }
  fill("map-sum", "Driver level ", figure(level), " = PyTorch's segments ", figure(pool), " + other driver allocations ", figure(others),
    ...(leftOut ? [" + blocks that are not in this page ", figure(leftOut)] : []));
}

function drawTabs(offered: readonly MapName[]): void {
  const names = offered.map((name) => make("button", { type: "button", role: "tab", id: `map-tab-${name}`, text: MAPS[name].name, "aria-selected": String(name === state.map),
    "aria-controls": "map-panel", tabindex: name === state.map ? 0 : -1, on: { click: () => { jump(() => { chooseMap(name); }); } } }));
  fill("map-tabs", ...names);
}

function tabKey(event: KeyboardEvent): void {
  const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key], tabs = [...byId("map-tabs").querySelectorAll("button")];
  if (!by || !tabs.length) return;
  const at = tabs.findIndex((of) => of.id === `map-tab-${state.map}`), next = item(tabs, (at + by + tabs.length) % tabs.length);
  next.click();
  document.getElementById(next.id)?.focus();
  event.preventDefault();
}

export function startMaps(): void {
  const button = (id: string, text: string, does: () => void) => make("button", { type: "button", id, text, on: { click: does } });
  byId("map-tabs").addEventListener("keydown", tabKey);
  fill("map-bar",
    button("event-before", "Event before", () => { stepMap(-1); }), button("event-after", "Event after", () => { stepMap(1); }),
    button("map-closer", "Zoom in", () => { zoomMapBy(2); }), button("map-farther", "Zoom out", () => { zoomMapBy(0.5); }), button("map-whole", "Whole map", wholeMap),
    ...(data.failures.length ? [button("failure-before", "Failure before", () => { stepFailures(-1); }),
      button("failure-after", "Failure after", () => { stepFailures(1); })] : []));
}
