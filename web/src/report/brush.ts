// Selects an interval of time by dragging over the chart, or with two sliders.

import { byId, fill, make, valueOf } from "../lib/dom";
import { time } from "../lib/format";
import { LEFT, TOP, timeAt, width } from "./axis";
import { clickAt } from "./blocks";
import { jump } from "./jumps";
import { chooseNearest, chooseRange, chooseSurvivors, chooseView, data, state } from "./state";

const NOTCHES = 1000;
/** A pointer that moves less is a click. */
const LEAST_DRAG = 3;

/** The position of a pointer in the chart's units. */
export function placeOf(event: MouseEvent): [x: number, y: number] {
  const box = byId("chart").querySelector("svg")?.getBoundingClientRect();
  if (!box) return [0, 0];
  const scale = width() / box.width;
  return [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
}

export function brushFrom(event: PointerEvent): void {
  if (event.button) return;
  const [startX, startY] = placeOf(event);
  const move = (of: PointerEvent) => {
    const [x] = placeOf(of);
    if (Math.abs(x - startX) > LEAST_DRAG) chooseRange(timeAt(startX), timeAt(x));
  };
  const done = (up: PointerEvent) => {
    removeEventListener("pointermove", move);
    removeEventListener("pointerup", done);
    const [x] = placeOf(up);
    if (Math.abs(x - startX) > LEAST_DRAG) chooseRange(timeAt(startX), timeAt(x));
    else jump(() => { if (state.picture !== "blocks" || !clickAt(startX - LEFT, startY - TOP)) chooseNearest(timeAt(startX)); });
  };
  addEventListener("pointermove", move);
  addEventListener("pointerup", done);
  byId("plot", SVGElement).focus();
  event.preventDefault();
}

function slider(id: string, label: string, at: number, choose: (at: number) => void): HTMLLabelElement {
  const span = Math.max(data.to - data.from, 1);
  const input = make("input", { type: "range", id, min: 0, max: NOTCHES, value: Math.round(((at - data.from) / span) * NOTCHES),
    "aria-valuetext": time(at, span), on: { input: (event) => {
      choose(data.from + (span * Number(valueOf(event))) / NOTCHES);
    } } });
  return make("label", {}, [label, input, make("output", { for: id, text: time(at, span) })]);
}

export function startBrush(): void {
  fill("brush",
    slider("from", "From", state.from, (at) => { chooseRange(Math.min(at, state.to), state.to); }),
    slider("to", "To", state.to, (at) => { chooseRange(state.from, Math.max(at, state.from)); }),
    make("button", { type: "button", id: "zoom", text: "Zoom to the selection", on: { click: () => { chooseView(state.from, state.to); } } }),
    make("button", { type: "button", id: "survivors", text: "Allocated in it and still live at its end", on: { click: chooseSurvivors } }),
    make("button", { type: "button", id: "whole", text: data.part === null ? "Whole run" : "All of this part", on: { click: () => {
      chooseRange(data.from, data.to);
      state.scale = null;
      chooseView(data.from, data.to);
    } } }),
    make("span", { class: "faint", text: "Drag over the chart, or use the sliders, to select a stretch of time." }));
}

/** The sliders keep their positions while they are moved. */
export function drawBrush(): void {
  const span = Math.max(data.to - data.from, 1);
  for (const [id, at] of [["from", state.from], ["to", state.to]] as const) {
    const input = byId(id, HTMLInputElement);
    input.value = String(Math.round(((at - data.from) / span) * NOTCHES));
    input.setAttribute("aria-valuetext", time(at, span));
    if (input.nextElementSibling) input.nextElementSibling.textContent = time(at, span);
  }
}
