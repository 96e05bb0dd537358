// The level block by block: the picture, the block under the pointer, and the pinned block.

import { make, say } from "../lib/dom";
import { bytes, count, time } from "../lib/format";
import { item } from "../lib/item";
import { HIGH, LEFT, TOP, columnEdges, plotWidth } from "./axis";
import { foundBlocks } from "./find";
import { type History, lastUpTo, liveAt } from "./history";
import { type Painted, paintOf } from "./paint";
import { NOTHING, REST, type Raster, paintInto, raster } from "./raster";
import { chooseEvent, data, history, insteadOf, moment, pin, state } from "./state";
import { apart } from "./words";

let shown: Raster | null = null;

export interface BlocksArea {
  canvas: HTMLCanvasElement;
  /** Bytes at the bottom and at the top. */
  low: number;
  most: number;
  legend: Painted["legend"];
}

/** The picture, which is reused for all drawings. */
let plot: { canvas: HTMLCanvasElement; context: CanvasRenderingContext2D; image: ImageData; pixels: Int32Array } | null = null;

function plotOf(wide: number, high: number): NonNullable<typeof plot> {
  if (plot?.image.width === wide && plot.image.height === high) return plot;
  const canvas = make("canvas", { width: wide, height: high, "aria-hidden": "true",
    style: { left: `${LEFT}px`, top: `${TOP}px`, width: `${wide}px`, height: `${high}px` } });
  const context = canvas.getContext("2d", { alpha: false, willReadFrequently: true });
  if (!context) throw new Error("the browser draws no pictures");
  const image = new ImageData(wide, high);
  return (plot = { canvas, context, image, pixels: new Int32Array(image.data.buffer) });
}

/** Draws the blocks of the view. */
export function drawBlocks(of: History): BlocksArea {
  const { canvas, context, image, pixels } = plotOf(Math.round(plotWidth()), HIGH);
  shown = raster(of, columnEdges(of, image.width), image.height, shown, state.scale);
  const colours = paintOf(of);
  paintInto(pixels, shown, colours, state.pinned, foundBlocks(of));
  context.putImageData(image, 0, 0);
  const rest = of.whole ? [] : [{ name: "blocks that are not in this page", colour: "var(--unknown)" }];
  return { canvas, low: shown.low, most: shown.most, legend: [...colours.legend, ...rest] };
}

/** The bytes at a height of the plot, and at its top. */
export function bytesAt(y: number): [at: number, most: number] {
  const { low, most } = shown ?? { low: 0, most: 1 };
  return [low + (1 - Math.max(0, Math.min(HIGH, y)) / HIGH) * (most - low), most];
}

/** The block at a position of the plot, and the tick that is shown there. */
export function hit(x: number, y: number): { block: number; tick: number } | null {
  const column = Math.floor(x), row = Math.floor(y);
  if (!shown || column < 0 || column >= shown.width || row < 0 || row >= shown.height) return null;
  return { block: item(shown.blocks, column * shown.height + row), tick: item(shown.ticks, column) };
}

/** The line that owns a block, and its category. */
export function named(of: History, block: number): string {
  const stack = item(of.stacks, block), category = item(of.categories, block);
  const owner = stack < 0 ? null : item(data.stacks.owners, item(data.stacks.stacks, stack)[1]);
  const line = owner ? `${owner.line} ${owner.function}`.trim() : "a line that is not in this page";
  return category < 0 ? line : `${item(data.categories, category)}, ${line}`;
}

/** The lifetime of a block, as text. */
export function life(of: History, block: number): string {
  const { times } = of.ticks, ended = times[item(of.ended, block)];
  const made = item(times, item(of.made, block));
  return ended === undefined ? `live from ${time(made, spanOf())} to the end` : `live from ${time(made, spanOf())} to ${time(ended, spanOf())}`;
}

function spanOf(): number {
  return state.view[1] - state.view[0];
}

/** Shows what is at a position of the plot. */
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

/** Handles a click: pins the block there, and shows the point in time. Returns whether there is a block. */
export function clickAt(x: number, y: number): boolean {
  const of = history(), at = hit(x, y);
  if (!of || !at || at.tick < 0) return false;
  state.pinned = at.block >= 0 ? at.block : null;
  chooseEvent(item(of.ticks.seqs, at.tick));
  return true;
}

/** Moves by this many events of the level's blocks. */
export function stepEvents(by: number): void {
  const of = history(), now = moment();
  if (!of || !now) return;
  const [first, last] = of.span.map((seq) => lastUpTo(of.ticks.seqs, seq));
  const tick = Math.max(0, first ?? 0, Math.min(last ?? 0, lastUpTo(of.ticks.seqs, now.seq) + by));
  chooseEvent(item(of.ticks.seqs, tick));
}

/** Pins the block above or below the pinned one, among those that are live at the point in time. */
export function stepBlocks(by: number): void {
  const of = history(), now = moment();
  if (!of || !now) return;
  const live = liveAt(of, lastUpTo(of.ticks.seqs, now.seq));
  if (!live.length) return;
  const place = state.pinned === null ? -1 : live.indexOf(state.pinned);
  pin(item(live, place < 0 ? live.length - 1 : Math.max(0, Math.min(live.length - 1, place + by))));
}

/** The blocks with pixels in the picture. */
export function visibleBlocks(): number[] {
  return shown ? [...new Set(shown.blocks)].filter((block) => block >= 0) : [];
}
