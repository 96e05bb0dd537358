// Draws ranks over time.

import { byId, draw, make } from "../lib/dom";
import { many } from "../lib/format";
import { figureAt, item } from "../lib/item";
import { tickText, timeStep } from "../lib/ticks";
import { noColour, penOf, pixel, ramp, variable } from "./colours";
import { cell, data, endedAt, groupOf, isDead, isOutlying, mostOff, order, peersOver, rankOf } from "./job";
import { HEADING, HIGH, type Places, type Strip, between, strips, topOf, whole } from "./rows";
import { state } from "./state";

/** The ranks' numbers at the left, marks at the right. */
export const SIDE = 46, MARKS = 16;
const FONT = "system-ui, sans-serif";

export const canvas = make("canvas", { id: "cells", tabindex: 0, role: "img" });

/** The value of a cell: its figure, or its distance from its peers. */
export function weight(index: number, column: number): number | null {
  const value = cell(state.part, index, column);
  if (value === 0) return null;
  return state.mode ? value - figureAt(peersOver(state.part, groupOf(index)).median, column) : value - 1;
}

/** For the ranks in a line, the most extreme figure of each column; NaN where none of them runs. */
function lineOf([from, to]: Places, wide: number): Float64Array {
  const row = new Float64Array(wide).fill(NaN);
  for (const index of order.slice(from, to)) {
    for (let x = 0; x < wide; x++) {
      const here = weight(index, x), before = figureAt(row, x);
      if (here !== null && (Number.isNaN(before) || Math.abs(here) > Math.abs(before))) row[x] = here;
    }
  }
  return row;
}

function drawCells(image: ImageData, top: number, density: number): void {
  const most = Math.max(1, (state.mode ? mostOff(state.part) : data.most[state.part]) / data.units[state.part]);
  const colours = ramp(state.mode), nothing = noColour();
  const pixels = image.data, wide = image.width;
  let before: Places | null = null;
  for (let y = 0; y < image.height; y++) {
    const found = between(top + y / density, top + (y + 1) / density);
    const isSame: boolean = found !== null && before !== null && before[0] === found[0] && before[1] === found[1];
    before = found;
    if (!found) continue;
    const start = y * wide * 4;
    if (isSame) {
      pixels.copyWithin(start, start - wide * 4, start);
      continue;
    }
    lineOf(found, wide).forEach((value, x) => {
      const share = state.mode ? (value / most + 1) / 2 : value / most;
      const colour = Math.max(0, Math.min(255, Math.round(share * 255)));
      pixels.set(Number.isNaN(value) ? [...nothing, 255] : pixel(colours, colour), start + x * 4);
    });
  }
}

export function drawMap(): void {
  const box = byId("map"), density = Math.min(devicePixelRatio || 1, 2);
  const wide = box.clientWidth, high = Math.min(whole, box.clientHeight || HIGH), top = box.scrollTop;
  [canvas.width, canvas.height] = [Math.max(1, wide * density), Math.max(1, high * density)];
  canvas.style.height = `${high}px`;
  const pen = penOf(canvas);
  const image = new ImageData(Math.max(1, data.columns), canvas.height);
  if (data.columns) drawCells(image, top, density);
  const sheet = make("canvas", { width: image.width, height: image.height });
  penOf(sheet).putImageData(image, 0, 0);
  pen.imageSmoothingEnabled = false;
  pen.drawImage(sheet, SIDE * density, 0, (wide - SIDE - MARKS) * density, canvas.height);
  pen.scale(density, density);
  pen.translate(0, -top);
  pen.textBaseline = "middle";
  let free = -Infinity;
  for (const strip of strips) {
    if (strip.top + strip.high < top || strip.top > top + high) continue;
    pen.fillStyle = variable("--text");
    free = labelStrip(pen, strip, { top, high, wide, free });
  }
  if (state.pinned >= 0) frameRow(pen, state.pinned, wide, variable("--focus"), 2);
  if (state.at) {
    frameRow(pen, state.at.index, wide, variable("--text"), 1);
    const x = acrossMap(state.at.column + 0.5, wide);
    pen.strokeStyle = variable("--text");
    pen.setLineDash([2, 3]);
    pen.beginPath();
    pen.moveTo(x, top);
    pen.lineTo(x, top + high);
    pen.stroke();
    pen.setLineDash([]);
  }
}

/** The numbers and marks of a strip's rows, or its heading. Returns the lower edge of the labels. */
function labelStrip(pen: CanvasRenderingContext2D, strip: Strip, view: { top: number; high: number; wide: number; free: number }): number {
  const { top, high, wide } = view;
  let free = view.free;
  if (strip.heading) {
    pen.font = `600 12px ${FONT}`;
    pen.fillText(`${strip.heading.place}: ${many(strip.heading.ranks.length, "rank", "ranks")}`, 6, strip.top + HEADING / 2, wide - 12);
    return strip.top + HEADING;
  }
  pen.font = `11px ${FONT}`;
  pen.textAlign = "right";
  const from = Math.max(0, Math.floor((top - strip.top) / strip.tall) - 1);
  const to = Math.min(strip.count, Math.ceil((top + high - strip.top) / strip.tall) + 1);
  const step = roundStep(13 / strip.tall);
  for (let at = Math.ceil(from / step) * step; at < to; at += step) {
    const y = strip.top + (at + 0.5) * strip.tall;
    if (y - 6 < free) continue;
    free = y + 6;
    pen.fillText(String(rankOf(item(order, strip.first + at))), SIDE - 5, Math.max(y, top + 6), SIDE - 8);
  }
  for (let at = from; at < to; at++) markRow(pen, item(order, strip.first + at), strip.top + at * strip.tall, strip.tall, wide);
  pen.textAlign = "left";
  return free;
}

/** The smallest of 1, 2, 5, 10, 20, … that is at least this number. */
function roundStep(least: number): number {
  for (let power = 1; ; power *= 10) for (const digit of [1, 2, 5]) if (power * digit >= least) return power * digit;
}

export function acrossMap(column: number, wide: number): number {
  return SIDE + (column / data.columns) * (wide - SIDE - MARKS);
}

function markRow(pen: CanvasRenderingContext2D, index: number, top: number, tall: number, wide: number): void {
  if (isOutlying(index)) {
    pen.fillStyle = variable("--bad");
    pen.fillRect(wide - MARKS + 4, top, MARKS - 6, Math.max(tall - 0.5, 2));
  }
  if (!isDead(index)) return;
  const size = Math.min(4, Math.max(tall / 2 - 1, 1.5));
  const x = Math.min(acrossMap(endedAt(index) / data.column_ns, wide), wide - MARKS - size) + size, y = top + tall / 2;
  for (const [colour, thick] of [[variable("--back"), 4], [variable("--bad"), 2]] as const) {
    [pen.strokeStyle, pen.lineWidth] = [colour, thick];
    pen.beginPath();
    for (const way of [-1, 1]) {
      pen.moveTo(x - size, y - way * size);
      pen.lineTo(x + size, y + way * size);
    }
    pen.stroke();
  }
}

function frameRow(pen: CanvasRenderingContext2D, index: number, wide: number, colour: string, thick: number): void {
  const [top, tall] = topOf(index);
  pen.strokeStyle = colour;
  pen.lineWidth = thick;
  pen.strokeRect(SIDE - 1, top - 0.5, wide - SIDE - MARKS + 2, Math.max(tall, 2) + 1);
}

/** Times below the rows; as many as fit. */
export function drawAxis(): void {
  const wide = Math.max(byId("map").clientWidth, 200);
  const span = data.column_ns * data.columns, step = timeStep(span) * (wide < 600 ? 2 : 1);
  const parts: SVGElement[] = [];
  for (let tick = 0; tick <= span; tick += step) {
    const x = acrossMap(tick / data.column_ns, wide).toFixed(1);
    parts.push(draw("path", { class: "axis", d: `M${x} 0v4` }));
    if (Number(x) < wide - 24) parts.push(draw("text", { x, y: 16, "text-anchor": tick ? "middle" : "start", text: tickText(tick, step) }));
  }
  const svg = draw("svg", { id: "axis", viewBox: `0 0 ${wide} 20`, "aria-hidden": "true" }, parts);
  const old = document.getElementById("axis");
  if (old) old.replaceWith(svg);
  else byId("map").after(svg);
}
