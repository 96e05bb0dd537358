// Memory over the whole run: the highest in each time interval.

import { byId, draw, fill, make } from "../lib/dom";
import { bytes } from "../lib/format";
import { byteStep, tickText, timeStep } from "../lib/ticks";
import type { Course } from "./data";
import { choice, shown, view } from "./state";

const LEFT = 78, RIGHT = 12, TOP = 10, HIGH = 230, BASE = TOP + HIGH;
/** By the index of their figures. */
const PARTS = [["tensors", "var(--tensors)"], ["PyTorch's allocator", "var(--cached)"], ["the process", "var(--beyond)"]] as const;

function courseShown(): Course | undefined {
  const all = shown.course ?? [];
  return all.find((of) => String(of.device) === choice.device) ?? all[0];
}

/** The outline of a part, in steps from bucket to bucket. */
function outline(values: readonly number[], x: (index: number) => string, y: (value: number) => string): string {
  let path = `M${x(0)} ${BASE}`;
  values.forEach((value, index) => { path += `V${y(value)}H${x(index + 1)}`; });
  return `${path}V${BASE}Z`;
}

export function drawCourse(): void {
  const course = courseShown();
  if (!course?.greatest.length) {
    fill("chart", make("p", { text: "No memory was allocated yet." }));
    return;
  }
  const buckets = course.greatest;
  // Its width is that of its container, so that its text has the size of the page's.
  const wide = Math.max(300, byId("chart").clientWidth);
  const begin = Math.max(course.start, 0), end = course.start + buckets.length * course.width;
  const across = (at: number) => LEFT + ((at - begin) / (end - begin)) * (wide - LEFT - RIGHT);
  const x = (index: number) => Math.max(LEFT, across(course.start + index * course.width)).toFixed(1);
  const most = buckets.reduce((all, parts) => Math.max(all, ...parts), 1);
  const y = (value: number) => (BASE - (value / most) * (HIGH - 6)).toFixed(1);
  const parts: SVGElement[] = [];
  // The largest first, so that each is drawn behind the parts that it contains.
  for (const part of [2, 1, 0] as const) {
    const [name, colour] = PARTS[part];
    parts.push(draw("path", { style: { fill: colour }, d: outline(buckets.map((of) => of[part]), x, y) }, [draw("title", { text: name })]));
  }
  for (let tick = 0, step = byteStep(most); tick <= most; tick += step) {
    parts.push(draw("path", { class: "grid", d: `M${LEFT} ${y(tick)}H${wide - RIGHT}` }));
    parts.push(draw("text", { x: LEFT - 8, y: Number(y(tick)) + 4, "text-anchor": "end", text: bytes(tick) }));
  }
  const step = timeStep((end - begin) * (wide < 700 ? 2.5 : 1));
  for (let tick = Math.ceil(begin / step) * step; tick <= end; tick += step) {
    const at = across(tick);
    parts.push(draw("path", { class: "axis", d: `M${at.toFixed(1)} ${BASE}v4` }));
    if (at < wide - 40) parts.push(draw("text", { x: at.toFixed(1), y: BASE + 17, "text-anchor": "middle", text: tickText(tick, step) }));
  }
  for (const failure of (shown.now?.failures ?? []).filter((of) => of.device === course.device)) {
    parts.push(draw("path", { d: `M${across(failure.time).toFixed(1)} ${TOP}V${BASE}`, style: { stroke: "var(--bad)" } },
      [draw("title", { text: `out of memory: ${bytes(failure.bytes)}` })]));
  }
  if (view.past && shown.now) {
    const at = Math.min(Math.max(across(shown.now.time), LEFT), wide - RIGHT).toFixed(1);
    parts.push(draw("path", { class: "moment", d: `M${at} ${TOP}V${BASE}`, style: { stroke: "currentColor" } }, [draw("title", { text: "what is shown" })]));
  }
  const label = `GPU ${course.device}: memory over time, at most ${bytes(most)}`;
  const svg = draw("svg", { viewBox: `0 0 ${wide} ${BASE + 24}`, role: "img", "aria-label": label, "data-most": most }, parts);
  const legend = PARTS.map(([name, colour]) => make("li", {}, [make("span", { class: "swatch", style: { background: colour } }), name]));
  legend.push(make("li", { class: "faint", text: `on GPU ${course.device}; each step is the most in ${(course.width / 1e6).toFixed(1)} ms` }));
  fill("chart", svg, make("ul", { class: "legend", "aria-label": "Colours" }, legend));
}
