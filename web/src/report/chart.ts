// Memory over time.

import { draw, fill, make, say } from "../lib/dom";
import { bytes, count, time } from "../lib/format";
import { item, sumOf } from "../lib/item";
import { byteStep, tickText, timeStep } from "../lib/ticks";
import { HIGH, LEFT, RIGHT, TOP, across, isInView, plotWidth, stepPath, visible, width } from "./axis";
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
  most: number;
  /** Below the axes. */
  canvas: HTMLCanvasElement | null;
  parts: Parts;
  legend: HTMLLIElement[];
}

export function drawChart(): void {
  const now = device(), of = history();
  const area = state.picture === "blocks" && of ? blocksArea(of) : cardArea();
  const grid: Parts = [];
  for (let tick = 0, step = byteStep(area.most); tick <= area.most; tick += step) {
    const y = BASE - (tick / area.most) * HIGH;
    grid.push(draw("path", { class: "grid", d: `M${LEFT} ${y.toFixed(1)}H${width() - RIGHT}` }));
    grid.push(draw("text", { x: LEFT - 6, y: (y + 4).toFixed(1), "text-anchor": "end", text: bytes(tick) }));
  }
  // The lines of the grid lie above a canvas, and below areas.
  const parts = area.canvas ? [...area.parts, ...grid] : [...grid, ...area.parts];
  drawTimes(parts);
  let height = drawCourse(BASE + 24, parts);
  height = drawHost(visible(now.chart.host), area.most, height, parts);
  drawMarks(parts);
  const [from, to] = state.view;
  const label = `${now.title}: memory over time, ${time(from)} to ${time(to)}, at most ${bytes(area.most)}`;
  const svg = draw("svg", { id: "plot", viewBox: `0 0 ${width()} ${height}`, role: "img", tabindex: 0, "aria-label": label,
    on: { pointerdown: brushFrom, pointermove: point, pointerleave: () => { say("at", " "); }, keydown: chartKey, wheel: chartWheel } }, parts);
  fill("chart", make("div", { class: "plot" }, [area.canvas, svg]), make("ul", { class: "legend", "aria-label": "Colours" }, area.legend));
}

function point(event: PointerEvent): void {
  const [x, y] = placeOf(event);
  sayAt(x - LEFT, y - TOP);
}

function blocksArea(of: History): Area {
  const { canvas, most, legend } = drawBlocks(of);
  return { canvas, most, parts: [], legend: [...legend.map(({ name, colour }) => entry(name, colour)), ...phaseEntries()] };
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
  return { canvas: null, most, parts, legend: legend(colours) };
}

function drawTimes(parts: Parts): void {
  const [from, to] = state.view, step = timeStep(to - from);
  for (let tick = Math.ceil(from / step) * step; tick <= to; tick += step) {
    const x = across(tick).toFixed(1);
    parts.push(draw("path", { class: "axis", d: `M${x} ${BASE}v4` }));
    parts.push(draw("text", { x, y: BASE + 17, "text-anchor": "middle", text: tickText(tick, step) }));
  }
  parts.push(draw("path", { class: "axis", d: `M${LEFT} ${BASE}H${width() - RIGHT}` }));
}

/** Less of the chart's scale than this is said, and not drawn. */
const LEAST_SHARE = 0.005;

/** Pinned host memory below the rest, in a scale of its own. The new height. */
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

/** Phases and steps. The new height. */
function drawCourse(top: number, parts: Parts): number {
  const [from, to] = state.view, high = 12;
  if (data.trains) {
    parts.push(draw("text", { x: LEFT - 8, y: top + 10, "text-anchor": "end", text: "phases" }));
    parts.push(draw("rect", { x: LEFT, y: top, width: plotWidth(), height: high, style: { fill: "var(--soft)" } }));
    for (const [begins, ends, ...spent] of data.course.phases.filter((of) => of[1] >= from && of[0] <= to)) {
      const x = Math.max(across(begins), LEFT), end = Math.min(across(ends), width() - RIGHT);
      let bottom = top + high;
      PHASES.forEach(([name, colour], index) => {
        const tall = (item(spent, index) / Math.max(ends - begins, 1)) * high;
        if (tall <= 0) return;
        bottom -= tall;
        parts.push(draw("rect", { x: x.toFixed(1), y: bottom.toFixed(1), width: Math.max(end - x, 0.5).toFixed(1),
          height: tall.toFixed(1), style: { fill: colour } }, [draw("title", { text: name })]));
      });
    }
    top += high + 4;
  }
  const steps = data.course.steps.filter(([at]) => isInView(at));
  if (steps.length) {
    parts.push(draw("text", { x: LEFT - 8, y: top + 14, "text-anchor": "end", text: "steps end" }));
    let free = LEFT + 14;
    for (const [at, number] of steps) {
      const x = across(at);
      if (x < free || x > width() - RIGHT - 14) continue;
      free = x + 52;
      parts.push(draw("path", { class: "axis", d: `M${x.toFixed(1)} ${top}v4` }));
      parts.push(draw("text", { x: x.toFixed(1), y: top + 15, "text-anchor": "middle", text: count(number) }));
    }
    top += 22;
  }
  return top + 4;
}

/** The chosen stretch, the moments that are kept, the one that is shown, failures. */
function drawMarks(parts: Parts): void {
  if (!isWholeRun()) {
    const x = Math.max(across(state.from), LEFT), end = Math.min(across(state.to), width() - RIGHT);
    parts.push(draw("rect", { id: "brushed", x: x.toFixed(1), y: TOP, width: Math.max(end - x, 1).toFixed(1),
      height: HIGH, style: { fill: "var(--chosen)", stroke: "var(--focus)" } }));
  }
  for (const failure of data.failures.filter((of) => of.device === device().device && isInView(of.time))) {
    const x = across(failure.time).toFixed(1);
    parts.push(draw("path", { class: "failure", d: `M${x} ${TOP + 10}l-6 -10h12z`, style: { fill: "var(--bad)" } },
      [draw("title", { text: `out of memory: ${bytes(failure.bytes)} asked for at ${failure.line}` })]));
  }
  device().moments.forEach((then, index) => {
    if (!isInView(then.time)) return;
    const x = across(then.time).toFixed(1), now = index === state.moment && !state.chosen;
    if (now) parts.push(draw("path", { class: "axis", "stroke-dasharray": "2 3", d: `M${x} ${TOP}V${BASE}` }));
    parts.push(draw("circle", { cx: x, cy: BASE, r: now ? 6 : then.kind === "peak" ? 5 : 3,
      style: { fill: now ? "var(--focus)" : "var(--back)", stroke: "var(--text)" } },
    [draw("title", { text: `${time(then.time)}, ${called(then)}` })]));
  });
  const chosen = state.chosen;
  if (chosen && isInView(chosen.time)) {
    parts.push(draw("path", { id: "cursor", d: `M${across(chosen.time).toFixed(1)} ${TOP}V${BASE}`, style: { stroke: "var(--focus)" } }));
  }
}
