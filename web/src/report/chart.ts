// Memory over time.

import { draw, fill, make, say } from "../lib/dom";
import { bytes, count, many, time } from "../lib/format";
import { item, sumOf } from "../lib/item";
import { byteStep, tickText, timeStep } from "../lib/ticks";
import { EventAxis, HIGH, LEFT, RIGHT, TOP, across, acrossEvent, isInView, plotWidth, stepPath, viewAxis, visible, width } from "./axis";
import { drawBlocks, sayAt } from "./blocks";
import { brushFrom, placeOf } from "./brush";
import { chartKey, chartWheel } from "./chart_keys";
import { PHASES, bandColours } from "./colours";
import type { Point } from "./data";
import type { History } from "./history";
import { called, data, device, history, isWholeRun, state } from "./state";

type Parts = SVGElement[];

const BASE = TOP + HIGH;

interface Area {
  /** Bytes at the bottom and at the top. */
  low: number;
  most: number;
  /** It is below the axes. */
  canvas: HTMLCanvasElement | null;
  parts: Parts;
  legend: HTMLLIElement[];
}

export function drawChart(): void {
  const now = device(), of = history();
  const area = state.picture === "blocks" && of ? blocksArea(of) : cardArea();
  const grid: Parts = [];
  const { low, most } = area, step = byteStep(most - low);
  for (let tick = Math.ceil(low / step) * step; tick <= most; tick += step) {
    const y = BASE - ((tick - low) / (most - low)) * HIGH;
    grid.push(draw("path", { class: "grid", d: `M${LEFT} ${y.toFixed(1)}H${width() - RIGHT}` }));
    grid.push(draw("text", { x: LEFT - 6, y: (y + 4).toFixed(1), "text-anchor": "end", text: bytes(tick) }));
  }
  // The grid's lines are above a canvas, and below areas.
  const parts = area.canvas ? [...area.parts, ...grid] : [...grid, ...area.parts];
  drawTimes(parts);
  let height = drawLanes(BASE + 24, parts);
  height = drawHost(visible(now.chart.host), most, height, parts);
  drawMarks(parts);
  const [from, to] = state.view;
  const scale = state.scale && area.canvas ? `from ${bytes(low)} to ${bytes(most)}` : `at most ${bytes(most)}`;
  const label = `${now.title}: memory over ${axisName()}, ${time(from)} to ${time(to)}, ${scale}`;
  say("scale", state.scale && area.canvas ? `Shown: the bytes from ${bytes(low)} to ${bytes(most)} of the level. 0 shows all.` : "");
  const { plot, svg, legend } = (places ??= makePlaces());
  const canvas = plot.querySelector("canvas");
  if (canvas !== area.canvas) {
    canvas?.remove();
    if (area.canvas) plot.prepend(area.canvas);
  }
  if (area.canvas) placeCanvas(area.canvas, height);
  svg.setAttribute("viewBox", `0 0 ${width()} ${height}`);
  svg.setAttribute("aria-label", label);
  svg.replaceChildren(...parts);
  legend.replaceChildren(...area.legend, ...leftOut());
}

/** Elements that are reused for all frames, because browsers are slow to lay out changed elements. */
let places: { plot: HTMLDivElement; svg: SVGSVGElement; legend: HTMLUListElement } | null = null;

function makePlaces(): NonNullable<typeof places> {
  const svg = draw("svg", { id: "plot", role: "img", tabindex: 0,
    on: { pointerdown: brushFrom, pointermove: point, pointerleave: () => { say("at", " "); }, keydown: chartKey, wheel: chartWheel } });
  const plot = make("div", { class: "plot" }, [svg]), legend = make("ul", { class: "legend", "aria-label": "Colours" });
  fill("chart", plot, legend);
  return { plot, svg, legend };
}

/** Keeps the canvas below the plot at any width of the chart: paper is narrower. */
function placeCanvas({ style }: HTMLCanvasElement, height: number): void {
  const share = (part: number, whole: number) => `${(part / whole) * 100}%`;
  [style.left, style.top] = [share(LEFT, width()), share(TOP, height)];
  [style.width, style.height] = [share(plotWidth(), width()), share(HIGH, height)];
}

function point(event: PointerEvent): void {
  const [x, y] = placeOf(event);
  sayAt(x - LEFT, y - TOP);
}

function blocksArea(of: History): Area {
  const { canvas, low, most, legend } = drawBlocks(of);
  return { canvas, low, most, parts: [], legend: [...legend.map(({ name, colour }) => entry(name, colour)), ...phaseEntries()] };
}

function cardArea(): Area {
  const chart = device().chart, points = visible(chart.points), bands = chart.bands.length;
  const sum = (point: Point, bands: number) => sumOf(point.slice(1, 1 + bands), (size) => size);
  const most = Math.max(1, ...points.map((point) => sum(point, bands)));
  const y = (value: number) => BASE - (value / most) * HIGH;
  const colours = bandColours(chart.bands);
  const parts: Parts = chart.bands.map((band, index) => {
    const path = stepPath(points, (point) => y(sum(point, index + 1)), (point) => y(sum(point, index)));
    return draw("path", { style: { fill: item(colours, index) }, d: path }, [draw("title", { text: band.name })]);
  });
  if (chart.nvml.length) {
    const path = stepPath(visible(chart.nvml).filter((point) => item(point, 1) <= most * 1.04), (point) => y(item(point, 1)));
    parts.push(draw("path", { fill: "none", class: "axis", "stroke-dasharray": "3 3", d: path },
      [draw("title", { text: "NVML, this process" })]));
  }
  return { canvas: null, low: 0, most, parts, legend: legend(colours) };
}

/** Width of the text of a tick. */
const TICK_ROOM = 64;

/** The numbers of events along an event axis. */
function drawEventNumbers({ of, first, count: all }: EventAxis, parts: Parts): void {
  const labels = Math.min(all, Math.max(2, Math.floor(plotWidth() / (TICK_ROOM * 1.6))));
  for (let label = 0; label < labels; label++) {
    const place = Math.floor((label * all) / labels), x = LEFT + (place / all) * plotWidth();
    parts.push(draw("path", { class: "axis", d: `M${x.toFixed(1)} ${BASE}v4` }));
    parts.push(draw("text", { x: x.toFixed(1), y: BASE + 17, "text-anchor": label ? "middle" : "start", text: `#${count(item(of.ticks.seqs, first + place))}` }));
  }
  parts.push(draw("path", { class: "axis", d: `M${LEFT} ${BASE}H${width() - RIGHT}` }));
}

function axisName(): string {
  return viewAxis() instanceof EventAxis ? "its events" : "time";
}

function drawTimes(parts: Parts): void {
  const [from, to] = state.view, axis = viewAxis();
  if (axis instanceof EventAxis) {
    drawEventNumbers(axis, parts);
    return;
  }
  const step = timeStep(axis.unfolded() * Math.max(1, 640 / plotWidth()));
  const isFolded = (at: number) => axis.folds.some(([begin, end]) => Math.abs(across(at) - across((begin + end) / 2)) < TICK_ROOM / 2);
  let free = LEFT - TICK_ROOM;
  const pieces = [from, ...axis.folds.flat(), to];
  for (let piece = 0; piece < pieces.length; piece += 2) {
    for (let tick = Math.ceil(item(pieces, piece) / step) * step; tick <= item(pieces, piece + 1); tick += step) {
      const x = across(tick);
      if (isFolded(tick) || x < free + TICK_ROOM || x > width() - RIGHT - TICK_ROOM / 3) continue;
      free = x;
      parts.push(draw("path", { class: "axis", d: `M${x.toFixed(1)} ${BASE}v4` }));
      parts.push(draw("text", { x: x.toFixed(1), y: BASE + 17, "text-anchor": "middle", text: tickText(tick, step) }));
    }
  }
  parts.push(draw("path", { class: "axis", d: `M${LEFT} ${BASE}H${width() - RIGHT}` }));
  let said = -TICK_ROOM;
  for (const [begin, end] of axis.folds) {
    const middle = (across(begin) + across(end)) / 2, text = seconds(end - begin);
    const zigzag = Array.from({ length: Math.floor(HIGH / 12) }, () => "l4 6l-4 6").join("");
    parts.push(draw("path", { class: "fold", d: `M${(middle - 2).toFixed(1)} ${TOP}${zigzag}` },
      [draw("title", { text: `${text} without an event` })]));
    if (middle - said < TICK_ROOM / 1.5) continue;
    said = middle;
    parts.push(draw("text", { x: middle.toFixed(1), y: BASE + 17, class: "folded", "text-anchor": "middle", text }));
  }
}

function seconds(nanos: number): string {
  return nanos >= 1e9 ? `${(nanos / 1e9).toFixed(1)} s` : nanos >= 1e6 ? `${Math.round(nanos / 1e6)} ms` : `${Math.round(nanos / 1e3)} µs`;
}

/** Host memory of less than this share of the chart's scale is printed as text, and not drawn. */
const LEAST_SHARE = 0.005;

/** Pinned host memory below the rest, in a separate scale. Returns the new height. */
function drawHost(host: readonly Point[], scale: number, height: number, parts: Parts): number {
  const most = Math.max(0, ...host.map((point) => item(point, 1)));
  if (most <= 0) return height;
  parts.push(draw("text", { x: LEFT, y: height + 14, text: `pinned host memory, at most ${bytes(most)}` }));
  if (most < scale * LEAST_SHARE) return height + 20;
  const foot = height + 62;
  const path = stepPath(host, (point) => foot - (item(point, 1) / most) * 40, () => foot);
  parts.push(draw("path", { style: { fill: "var(--host)" }, d: path }));
  return foot + 8;
}

function entry(name: string, colour: string): HTMLLIElement {
  return make("li", {}, [make("span", { class: "swatch", style: { background: colour } }), name]);
}

function phaseEntries(): HTMLLIElement[] {
  if (!data.trains) return [];
  return [...PHASES.slice(0, 3).map(([name, colour]) => entry(name, colour)), entry("forward", "var(--soft)")];
}

function legend(colours: readonly string[]): HTMLLIElement[] {
  const chart = device().chart;
  const entries = chart.bands.map((band, index) => entry(band.name, item(colours, index)));
  if (chart.nvml.length) entries.push(make("li", { text: "┄ NVML, this process" }));
  return [...entries, ...phaseEntries()];
}

/** Lanes of which only the widest spans are in the page. */
function leftOut(): HTMLLIElement[] {
  const lanes = data.lanes.filter((lane) => lane.left_out > 0);
  return lanes.map((lane) => make("li", { class: "faint", text: `${lane.name}: ${many(lane.left_out, "narrower one is", "narrower ones are")} left out` }));
}

const LANE = 14;

/** Spans of each kind, each in a separate lane. Returns the new height. */
function drawLanes(top: number, parts: Parts): number {
  const right = width() - RIGHT;
  for (const lane of data.lanes) {
    const spans = lane.spans.filter(([begins, ends]) => ends >= state.view[0] && begins <= state.view[1]);
    if (!spans.length) continue;
    parts.push(draw("text", { x: LEFT - 6, y: top + 11, "text-anchor": "end", text: lane.name }));
    parts.push(draw("rect", { x: LEFT, y: top, width: plotWidth(), height: LANE - 2, style: { fill: "var(--soft)" } }));
    let drawn = 0;
    spans.forEach(([begins, ends, label], index) => {
      const x = Math.max(across(begins), LEFT);
      // A span within a pixel that already has a span is not visible.
      if (Math.min(across(ends), right) < drawn + 0.5) return;
      const wide = Math.max(Math.min(across(ends), right) - x, 1);
      drawn = x + wide;
      const title = ends > begins ? `${label}: ${time(begins)} to ${time(ends)}` : `${label}: ${time(begins)}`;
      parts.push(draw("rect", { class: "span", x: x.toFixed(1), y: top, width: wide.toFixed(1), height: LANE - 2,
        style: { fill: spanColour(label, index) } }, [draw("title", { text: title })]));
      if (wide > 7 * label.length + 6) parts.push(draw("text", { class: "label", x: (x + 3).toFixed(1), y: top + 10, text: label }));
    });
    top += LANE;
  }
  return top + 6;
}

/** Phases have fixed colours; other spans alternate. */
function spanColour(label: string, index: number): string {
  return PHASES.find(([name]) => name === label)?.[1] ?? (index % 2 ? "var(--lane-odd)" : "var(--lane-even)");
}

/** The chosen interval, the stored points in time, the shown one, and failures. */
function drawMarks(parts: Parts): void {
  if (!isWholeRun()) {
    const x = Math.max(across(state.from), LEFT), end = Math.min(across(state.to), width() - RIGHT);
    parts.push(draw("rect", { id: "brushed", x: x.toFixed(1), y: TOP, width: Math.max(end - x, 1).toFixed(1),
      height: HIGH, style: { fill: "var(--chosen)", stroke: "var(--focus)" } }));
  }
  for (const failure of data.failures.filter((of) => of.device === device().device && isInView(of.time))) {
    const x = acrossEvent(failure.seq, failure.time).toFixed(1);
    parts.push(draw("path", { class: "failure", d: `M${x} ${TOP + 10}l-6 -10h12z`, style: { fill: "var(--bad)" } },
      [draw("title", { text: `out of memory: ${bytes(failure.bytes)} requested at ${failure.line}` })]));
  }
  device().moments.forEach((then, index) => {
    if (!isInView(then.time)) return;
    const x = acrossEvent(then.seq, then.time).toFixed(1), now = index === state.moment && !state.chosen;
    if (now) parts.push(draw("path", { class: "axis", "stroke-dasharray": "2 3", d: `M${x} ${TOP}V${BASE}` }));
    parts.push(draw("circle", { cx: x, cy: BASE, r: now ? 6 : then.kind === "peak" ? 5 : 3,
      style: { fill: now ? "var(--focus)" : "var(--back)", stroke: "var(--text)" } },
    [draw("title", { text: `${time(then.time)}, ${called(then)}` })]));
  });
  const chosen = state.chosen;
  if (chosen && isInView(chosen.time)) {
    parts.push(draw("path", { id: "cursor", d: `M${acrossEvent(chosen.seq, chosen.time).toFixed(1)} ${TOP}V${BASE}`, style: { stroke: "var(--focus)" } }));
  }
}
