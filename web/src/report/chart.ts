// Memory over time.

import { draw, fill, make } from "../lib/dom";
import { bytes, count, time } from "../lib/format";
import { item, sumOf } from "../lib/item";
import { byteStep, tickText, timeStep } from "../lib/ticks";
import { HIGH, LEFT, RIGHT, TOP, WIDTH, across, isInView, stepPath, visible } from "./axis";
import { brushFrom } from "./brush";
import { PHASES, bandColours } from "./colours";
import type { Point } from "./data";
import { called, data, device, isWholeRun, state } from "./state";

type Parts = SVGElement[];

const BASE = TOP + HIGH;

export function drawChart(): void {
  const now = device(), chart = now.chart;
  const points = visible(chart.points);
  const sum = (point: Point, bands: number) => sumOf(point.slice(1, 1 + bands), (size) => size);
  const bands = chart.bands.length;
  const most = Math.max(1, ...points.map((point) => sum(point, bands)));
  const y = (value: number) => BASE - (value / most) * (HIGH - 8);
  const parts: Parts = [];
  for (let tick = 0, step = byteStep(most); tick <= most; tick += step) {
    parts.push(draw("path", { class: "grid", d: `M${LEFT} ${y(tick).toFixed(1)}H${WIDTH - RIGHT}` }));
    parts.push(draw("text", { x: LEFT - 8, y: (y(tick) + 4).toFixed(1), "text-anchor": "end", text: bytes(tick) }));
  }
  const colours = bandColours(chart.bands);
  chart.bands.forEach((band, index) => {
    const path = stepPath(points, (point) => y(sum(point, index + 1)), (point) => y(sum(point, index)));
    parts.push(draw("path", { style: { fill: item(colours, index) }, d: path }, [draw("title", { text: band.name })]));
  });
  if (chart.nvml.length) {
    const path = stepPath(visible(chart.nvml).filter((point) => item(point, 1) <= most * 1.04), (point) => y(item(point, 1)));
    parts.push(draw("path", { fill: "none", class: "axis", "stroke-dasharray": "3 3", d: path },
      [draw("title", { text: "NVML, this process" })]));
  }
  drawTimes(parts);
  let height = drawCourse(BASE + 24, parts);
  height = drawHost(visible(chart.host), height, parts);
  drawMarks(parts);
  const [from, to] = state.view;
  const label = `${now.title}: memory over time, ${time(from)} to ${time(to)}, at most ${bytes(most)}`;
  const svg = draw("svg", { viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": label,
    on: { pointerdown: brushFrom } }, parts);
  fill("chart", svg, make("ul", { class: "legend", "aria-label": "Colours" }, legend(colours)));
}

function drawTimes(parts: Parts): void {
  const [from, to] = state.view, step = timeStep(to - from);
  for (let tick = Math.ceil(from / step) * step; tick <= to; tick += step) {
    const x = across(tick).toFixed(1);
    parts.push(draw("path", { class: "axis", d: `M${x} ${BASE}v4` }));
    parts.push(draw("text", { x, y: BASE + 17, "text-anchor": "middle", text: tickText(tick, step) }));
  }
  parts.push(draw("path", { class: "axis", d: `M${LEFT} ${BASE}H${WIDTH - RIGHT}` }));
}

/** Pinned host memory below the rest, in a scale of its own. The new height. */
function drawHost(host: readonly Point[], height: number, parts: Parts): number {
  const most = Math.max(0, ...host.map((point) => item(point, 1)));
  if (most <= 0) return height;
  parts.push(draw("text", { x: LEFT, y: height + 14, text: `pinned host memory, at most ${bytes(most)}` }));
  const foot = height + 62;
  const path = stepPath(host, (point) => foot - (item(point, 1) / most) * 40, () => foot);
  parts.push(draw("path", { style: { fill: "var(--host)" }, d: path }));
  return foot + 8;
}

function legend(colours: readonly string[]): HTMLLIElement[] {
  const entry = (name: string, colour: string) =>
    make("li", {}, [make("span", { class: "swatch", style: { background: colour } }), name]);
  const chart = device().chart;
  const entries = chart.bands.map((band, index) => entry(band.name, item(colours, index)));
  if (chart.nvml.length) entries.push(make("li", { text: "┄ NVML, this process" }));
  if (data.trains) {
    for (const [name, colour] of PHASES.slice(0, 3)) entries.push(entry(name, colour));
    entries.push(entry("forward", "var(--soft)"));
  }
  return entries;
}

/** Phases and steps. The new height. */
function drawCourse(top: number, parts: Parts): number {
  const [from, to] = state.view, high = 12;
  if (data.trains) {
    parts.push(draw("text", { x: LEFT - 8, y: top + 10, "text-anchor": "end", text: "phases" }));
    parts.push(draw("rect", { x: LEFT, y: top, width: WIDTH - LEFT - RIGHT, height: high, style: { fill: "var(--soft)" } }));
    for (const [begins, ends, ...spent] of data.course.phases.filter((of) => of[1] >= from && of[0] <= to)) {
      const x = Math.max(across(begins), LEFT), end = Math.min(across(ends), WIDTH - RIGHT);
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
      if (x < free || x > WIDTH - RIGHT - 14) continue;
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
    const x = Math.max(across(state.from), LEFT), end = Math.min(across(state.to), WIDTH - RIGHT);
    parts.push(draw("rect", { id: "brushed", x: x.toFixed(1), y: TOP, width: Math.max(end - x, 1).toFixed(1),
      height: HIGH, style: { fill: "var(--chosen)", stroke: "var(--focus)" } }));
  }
  for (const failure of data.failures.filter((of) => of.device === device().device && isInView(of.time))) {
    const x = across(failure.time).toFixed(1);
    parts.push(draw("path", { d: `M${x} ${TOP}V${BASE}`, style: { stroke: "var(--bad)" } },
      [draw("title", { text: `out of memory: ${bytes(failure.bytes)} asked for at ${failure.line}` })]));
  }
  device().moments.forEach((then, index) => {
    if (!isInView(then.time)) return;
    const x = across(then.time).toFixed(1), now = index === state.moment;
    if (now) parts.push(draw("path", { class: "axis", "stroke-dasharray": "2 3", d: `M${x} ${TOP}V${BASE}` }));
    parts.push(draw("circle", { cx: x, cy: BASE, r: now ? 6 : then.kind === "peak" ? 5 : 3,
      style: { fill: now ? "var(--focus)" : "var(--back)", stroke: "var(--text)" } },
    [draw("title", { text: `${time(then.time)}, ${called(then)}` })]));
  });
}
