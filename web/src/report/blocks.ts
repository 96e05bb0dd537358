// The level block by block: the picture, what stands under the pointer, and the block that is pinned.

import { make, say } from "../lib/dom";
import { bytes, count, time } from "../lib/format";
import { item } from "../lib/item";
import { HIGH, LEFT, TOP, plotWidth, timeAtShare } from "./axis";
import { type History, lastUpTo, liveAt } from "./history";
import { type Painted, paintOf, pixelOf, styled } from "./paint";
import type { Paint } from "./paints";
import { NOTHING, REST, type Raster, painted, raster } from "./raster";
import { chooseEvent, data, history, insteadOf, moment, pin, state } from "./state";
import { apart } from "./words";

let shown: Raster | null = null;
let colours: { of: History; by: Paint; back: string; painted: Painted } | null = null;

function paint(of: History): Painted {
  // Light and dark have backgrounds of their own, and paper has the light one.
  const back = styled("--back");
  if (colours?.of !== of || colours.by !== state.paint || colours.back !== back) {
    colours = { of, by: state.paint, back, painted: paintOf(of, state.paint) };
  }
  return colours.painted;
}

/** The times of the edges of so many columns. */
function edges(columns: number): Float64Array {
  return Float64Array.from({ length: columns + 1 }, (_, x) => timeAtShare(x / columns));
}

export interface BlocksArea {
  canvas: HTMLCanvasElement;
  most: number;
  legend: Painted["legend"];
}

/** Draws the blocks of the view. */
export function drawBlocks(of: History): BlocksArea {
  const wide = Math.round(plotWidth()), high = HIGH;
  shown = raster(of, edges(wide), wide, high);
  const { pixels: blocks, others, legend } = paint(of);
  const pixels = painted(shown, { blocks, rest: others, back: pixelOf(styled("--soft")) }, state.pinned);
  const canvas = make("canvas", { width: wide, height: high, "aria-hidden": "true",
    style: { left: `${LEFT}px`, top: `${TOP}px`, width: `${wide}px`, height: `${high}px` } });
  canvas.getContext("2d")?.putImageData(new ImageData(new Uint8ClampedArray(pixels.buffer), wide, high), 0, 0);
  const rest = of.whole ? [] : [{ name: "blocks that are not in this page", colour: "var(--unknown)" }];
  return { canvas, most: shown.most, legend: [...legend, ...rest] };
}

/** The block at a place of the plot, and the tick that is shown there. */
export function hit(x: number, y: number): { block: number; tick: number } | null {
  const column = Math.floor(x), row = Math.floor(y);
  if (!shown || column < 0 || column >= shown.width || row < 0 || row >= shown.height) return null;
  return { block: item(shown.blocks, row * shown.width + column), tick: item(shown.ticks, column) };
}

/** The line that a block is of, and what it is for. */
export function named(of: History, block: number): string {
  const stack = item(of.stacks, block), category = item(of.categories, block);
  const owner = stack < 0 ? null : item(data.stacks.owners, item(data.stacks.stacks, stack)[1]);
  const line = owner ? `${owner.line} ${owner.function}`.trim() : "a line that is not in this page";
  return category < 0 ? line : `${item(data.categories, category)}, ${line}`;
}

/** How long a block lived, in words. */
export function life(of: History, block: number): string {
  const { times } = of.ticks, ended = times[item(of.ended, block)];
  const made = item(times, item(of.made, block));
  return ended === undefined ? `live from ${time(made, spanOf())} to the end` : `live from ${time(made, spanOf())} to ${time(ended, spanOf())}`;
}

function spanOf(): number {
  return state.view[1] - state.view[0];
}

/** Says what stands at a place of the plot. */
export function sayAt(x: number, y: number): void {
  const of = history(), at = hit(x, y);
  if (!of || !at || at.tick < 0) {
    say("at", " ");
    return;
  }
  const { times, seqs, totals } = of.ticks;
  const asked = { seq: item(seqs, at.tick), time: item(times, at.tick) }, instead = insteadOf(asked.seq);
  const now = `${time(asked.time, spanOf())}, event ${count(asked.seq)}: ${bytes(item(totals, at.tick))}`;
  const what = at.block === NOTHING ? ""
    : at.block === REST ? " · blocks that are not in this page"
      : ` · ${bytes(item(of.bytes, at.block))} ${named(of, at.block)}, ${life(of, at.block)}`;
  const off = instead ? ` · blocks are left out here: a click shows event ${count(instead.seq)}, ${apart(asked, instead)}` : "";
  say("at", now + what + off);
}

/** A click: pins the block that stands there, and shows the moment. Whether there is any. */
export function clickAt(x: number, y: number): boolean {
  const of = history(), at = hit(x, y);
  if (!of || !at || at.tick < 0) return false;
  state.pinned = at.block >= 0 ? at.block : null;
  chooseEvent(item(of.ticks.seqs, at.tick));
  return true;
}

/** Goes on by so many events of the level's blocks. */
export function stepEvents(by: number): void {
  const of = history(), now = moment();
  if (!of || !now) return;
  const [first, last] = of.span.map((seq) => lastUpTo(of.ticks.seqs, seq));
  const tick = Math.max(0, first ?? 0, Math.min(last ?? 0, lastUpTo(of.ticks.seqs, now.seq) + by));
  chooseEvent(item(of.ticks.seqs, tick));
}

/** Pins the block above the pinned one, or below it, among those that are live at the moment. */
export function stepBlocks(by: number): void {
  const of = history(), now = moment();
  if (!of || !now) return;
  const live = liveAt(of, lastUpTo(of.ticks.seqs, now.seq));
  if (!live.length) return;
  const place = state.pinned === null ? -1 : live.indexOf(state.pinned);
  pin(item(live, place < 0 ? live.length - 1 : Math.max(0, Math.min(live.length - 1, place + by))));
}

/** The blocks that have pixels in the picture. */
export function visibleBlocks(): number[] {
  return shown ? [...new Set(shown.blocks)].filter((block) => block >= 0) : [];
}
