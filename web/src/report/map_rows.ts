// Rows of boxes in maps: drawing, pointing, and keys.

import { type Child, byId, make, say } from "../lib/dom";
import { figure } from "../lib/figure";
import { many } from "../lib/format";
import { item, sumOf } from "../lib/item";
import { stepMap } from "./map_steps";
import { styled } from "./paint";
import { LEAST_WIDE, panZoom, showAll, showPlace, zoomAt, zoomNow } from "./map_zoom";
import { type MapName, state } from "./state";

/** The outline of matches, as in the chart and the flamegraph. */
const FOUND = "#d65cff";
const BAR = 14, GAP = 4, TEXT = 15, LABEL = 300, NARROW = 640;
/** The most rows of a group that are drawn. */
export const MOST_ROWS = 120;

/** How a box is drawn: filled; striped; the lower half; a fold of omitted space; an outline. */
export type Look = "full" | "striped" | "low" | "fold" | "outline";

export interface Piece {
  /** In bytes of the row's bar. */
  from: number;
  wide: number;
  /** A colour; one that begins with -- belongs to the style. */
  colour: string;
  look: Look;
  says: () => string;
  /** The bytes that it stands for. */
  bytes: number;
  pin?: (() => void) | undefined;
  pinned?: boolean;
  /** Whether it matches a search. */
  found?: boolean;
}

export interface Row {
  label: string;
  /** The width of the bar. */
  wide: number;
  pieces: Piece[];
  bytes: number;
}

export interface Group {
  title: string;
  bytes: number;
  note?: string;
  rows: Row[];
}

interface Drawn {
  group: Group;
  canvas: HTMLCanvasElement;
  most: number;
  left: number;
  high: number;
  /** The index of the piece that is selected by keys; -1: no piece. */
  cursor: number;
  /** Shows how many rows are wider than to scale. */
  note: HTMLParagraphElement;
}

let drawn: Drawn[] = [];
/** The map of the rows. */
let shown: MapName | null = null;

/** The groups that are shown. */
export function mapGroups(): readonly Group[] {
  return drawn.map((of) => of.group);
}

function colourOf(of: string): string {
  return of.startsWith("--") ? styled(of) : of;
}

function stripes(context: CanvasRenderingContext2D, from: number, to: number, top: number): void {
  context.strokeStyle = styled("--back");
  context.lineWidth = 1;
  context.beginPath();
  for (let x = from; x < to; x += 5) {
    context.moveTo(x, top + BAR);
    context.lineTo(Math.min(x + 5, to), top);
  }
  context.stroke();
}

/** A zigzag: a larger area is folded here. */
function fold(context: CanvasRenderingContext2D, from: number, to: number, top: number): void {
  context.strokeStyle = styled("--faint");
  context.lineWidth = 1.5;
  context.beginPath();
  for (let x = from, up = false; x <= to; x += 3, up = !up) context.lineTo(x, top + (up ? 4 : BAR - 4));
  context.stroke();
}

function box(context: CanvasRenderingContext2D, piece: Piece, x: (at: number) => number, top: number): void {
  const from = x(piece.from), to = x(piece.from + piece.wide), wide = Math.max(to - from - 0.5, 1);
  context.fillStyle = colourOf(piece.colour);
  if (piece.look === "low") context.fillRect(from, top + BAR / 2, wide, BAR / 2);
  else if (piece.look === "fold") fold(context, from + 2, to - 2, top);
  else if (piece.look === "outline") {
    context.strokeStyle = colourOf(piece.colour);
    context.lineWidth = 1.5;
    context.strokeRect(from + 1, top + 1, Math.max(wide - 2, 1), BAR - 2);
  } else context.fillRect(from, top, wide, BAR);
  if (piece.look === "striped") stripes(context, from, to, top);
  if (!piece.pinned && !piece.found) return;
  context.strokeStyle = piece.pinned ? styled("--focus") : FOUND;
  context.lineWidth = 3;
  context.strokeRect(from, top, Math.max(wide, 2), BAR);
}

/** The position of bytes in a row. A narrow row has a larger scale, so that it is just wide enough to be visible. */
function xOf(of: Drawn, row: Row): (at: number) => number {
  const wide = of.canvas.width - of.left - 2, { times, left } = zoomNow(), scale = Math.max((wide * times) / of.most, isNarrow(of, row) ? LEAST_WIDE / Math.max(row.wide, 1) : 0);
  const begin = of.left + 1 - left * wide * times;
  return (at) => begin + at * scale;
}

function isNarrow(of: Drawn, row: Row): boolean {
  return (of.canvas.width - of.left - 2) * zoomNow().times * row.wide < LEAST_WIDE * of.most;
}

/** As much of a label as fits, cut at its right end. */
function cut(context: CanvasRenderingContext2D, text: string, wide: number): string {
  if (context.measureText(text).width <= wide) return text;
  let length = Math.min(text.length, Math.floor(wide / 4));
  while (length > 0 && context.measureText(`${text.slice(0, length)}…`).width > wide) length--;
  return `${text.slice(0, length)}…`;
}

function draw(of: Drawn): void {
  const context = of.canvas.getContext("2d");
  if (!context) return;
  context.clearRect(0, 0, of.canvas.width, of.canvas.height);
  context.font = '12px system-ui, "DejaVu Sans", sans-serif';
  context.textBaseline = "middle";
  of.group.rows.slice(0, MOST_ROWS).forEach((row, index) => {
    const y = index * of.high, top = y + of.high - BAR - GAP / 2;
    context.fillStyle = styled("--text");
    const room = of.left ? of.left - 10 : of.canvas.width;
    context.fillText(cut(context, row.label, room), 0, of.left ? top + BAR / 2 + 1 : y + TEXT / 2);
    const x = xOf(of, row);
    context.save();
    context.beginPath();
    context.rect(of.left, top - 2, of.canvas.width - of.left, BAR + 4);
    context.clip();
    context.fillStyle = styled("--soft");
    context.fillRect(x(0), top, x(row.wide) - x(0), BAR);
    for (const piece of row.pieces) box(context, piece, x, top);
    context.strokeStyle = styled("--line");
    context.lineWidth = 1;
    context.strokeRect(x(0), top, x(row.wide) - x(0), BAR);
    context.restore();
  });
  mark(of, context);
  const narrow = of.group.rows.slice(0, MOST_ROWS).filter((row) => isNarrow(of, row)).length;
  of.note.textContent = narrow ? `${many(narrow, "row is", "rows are")} drawn wider than to scale, ${LEAST_WIDE} pixels, so that you see what is in them: zoom in for their true width.` : "";
}

/** Marks the piece that is selected by keys. */
function mark(of: Drawn, context: CanvasRenderingContext2D): void {
  const at = pieces(of)[of.cursor];
  if (!at) return;
  const x = xOf(of, item(of.group.rows, at.row));
  context.strokeStyle = styled("--focus");
  context.lineWidth = 2;
  const top = at.row * of.high + of.high - BAR - GAP / 2;
  context.strokeRect(x(at.piece.from) - 1, top - 1, Math.max(x(at.piece.from + at.piece.wide) - x(at.piece.from), 2) + 2, BAR + 2);
}

function pieces(of: Drawn): { row: number; piece: Piece }[] {
  return of.group.rows.slice(0, MOST_ROWS).flatMap((row, index) => row.pieces.map((piece) => ({ row: index, piece })));
}

/** The narrowest box at a position, because boxes may overlap. */
function pieceAt(of: Drawn, event: MouseEvent): Piece | undefined {
  const seen = of.canvas.getBoundingClientRect();
  const left = ((event.clientX - seen.left) / seen.width) * of.canvas.width, top = ((event.clientY - seen.top) / seen.height) * of.canvas.height;
  const row = of.group.rows[Math.floor(top / of.high)];
  if (!row) return undefined;
  if (left < of.left) return row.pieces[0];
  const x = xOf(of, row);
  // A narrow box is one pixel at least.
  const found = row.pieces.filter((piece) => x(piece.from) - 0.5 <= left && left < Math.max(x(piece.from + piece.wide), x(piece.from) + 1.5));
  return found.sort((a, b) => a.wide - b.wide)[0];
}

const CLOSER = 1.5, PAN = 0.2;

function redraw(): void {
  for (const of of drawn) draw(of);
}

/** Scales the map; the content at a position from 0 to 1 stays there. */
function zoomMap(by: number, place: number): void {
  zoomAt(place, by);
  redraw();
}

function panMap(share: number): void {
  panZoom(share);
  redraw();
}

export function wholeMap(): void {
  showAll();
  redraw();
}

const ZOOMS: Record<string, (place: number) => void> = {
  "+": (place) => { zoomMap(CLOSER, place); }, "=": (place) => { zoomMap(CLOSER, place); }, "-": (place) => { zoomMap(1 / CLOSER, place); }, "0": wholeMap,
};

/** The position of the selected piece, from 0 to 1; else 0, where rows begin. */
function cursorPlace(of: Drawn): number {
  const at = pieces(of)[of.cursor], wide = of.canvas.width - of.left - 2;
  if (!at) return 0;
  return Math.max(0, Math.min(1, (xOf(of, item(of.group.rows, at.row))(at.piece.from + at.piece.wide / 2) - of.left) / wide));
}

/** Zooms about the selected piece, else about the left edge, where rows begin. */
export function zoomMapBy(by: number): void {
  const chosen = drawn.find((of) => pieces(of)[of.cursor]);
  zoomMap(by, chosen ? cursorPlace(chosen) : 0);
}

/**
 * With Ctrl, which browsers also report for a pinch, zooms the map about the pointer; with Shift or sideways moves
 * it.
 */
function wheeled(of: Drawn, event: WheelEvent): void {
  const seen = of.canvas.getBoundingClientRect(), wide = of.canvas.width - of.left;
  const place = (((event.clientX - seen.left) / seen.width) * of.canvas.width - of.left) / wide, by = event.deltaY || event.deltaX;
  if (event.ctrlKey) zoomMap(Math.exp(-Math.max(-1, Math.min(1, by / 200))), Math.max(0, Math.min(1, place)));
  else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) panMap(by / 1000);
  else return;
  event.preventDefault();
}

function keyed(of: Drawn, event: KeyboardEvent): void {
  const all = pieces(of), by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.shiftKey && event.key.startsWith("Arrow")) panMap(event.key === "ArrowRight" ? PAN : event.key === "ArrowLeft" ? -PAN : 0);
  else if (event.key === "ArrowRight" || event.key === "ArrowLeft") stepMap(event.key === "ArrowRight" ? 1 : -1);
  else if (event.key === "Enter") all[of.cursor]?.piece.pin?.();
  else if (by && all.length) {
    of.cursor = Math.max(0, Math.min(all.length - 1, of.cursor + by));
    const { row, piece } = item(all, of.cursor);
    if (!isNarrow(of, item(of.group.rows, row))) showPlace(piece.from / of.most, (piece.from + piece.wide) / of.most);
    redraw();
    say("map-at", piece.says());
  } else if (event.key in ZOOMS) ZOOMS[event.key]?.(cursorPlace(of));
  else return;
  event.preventDefault();
}

/** Draws groups of rows into an element. */
export function drawGroups(into: string, groups: readonly Group[]): void {
  const wide = Math.max(200, byId(into).clientWidth), left = wide < NARROW ? 0 : LABEL, before = shown === state.map ? drawn : [];
  shown = state.map;
  const most = Math.max(1, ...groups.flatMap((of) => of.rows.map((row) => row.wide)));
  const high = left ? BAR + GAP : BAR + GAP + TEXT;
  const children: Child[] = [];
  drawn = groups.map((group, index) => {
    const rows = group.rows.slice(0, MOST_ROWS), rest = group.rows.slice(MOST_ROWS);
    const canvas = make("canvas", { id: `map-rows-${index}`, width: wide, height: Math.max(1, rows.length * high), role: "img", tabindex: 0,
      "aria-label": `${group.title}: ${many(group.rows.length, "row", "rows")}; up and down go through them` });
    const of = { group, canvas, most, left, high, note: make("p", { class: "faint" }), cursor: Math.min(before[index]?.cursor ?? -1, pieceCount(group) - 1) };
    canvas.addEventListener("pointermove", (event) => { say("map-at", pieceAt(of, event)?.says() ?? " "); });
    canvas.addEventListener("click", (event) => { pieceAt(of, event)?.pin?.(); });
    canvas.addEventListener("wheel", (event) => { wheeled(of, event); }, { passive: false });
    canvas.addEventListener("keydown", (event) => { keyed(of, event); });
    children.push(make("h3", { "data-group": group.title }, [`${group.title}: `, figure(group.bytes)]),
      group.note ? make("p", { class: "faint", text: group.note }) : null, group.rows.length > 0 && canvas,
      rest.length > 0 && make("p", { class: "faint", text: `${many(rest.length, "more row", "more rows")} of ${sumOf(rest, (row) => row.bytes).toLocaleString("en")} bytes ${rest.length === 1 ? "is" : "are"} not drawn.` }));
    draw(of);
    children.push(of.note);
    return of;
  });
  byId(into).replaceChildren(...children.filter((child): child is Node => child instanceof Node));
}

function pieceCount(group: Group): number {
  return sumOf(group.rows.slice(0, MOST_ROWS), (row) => row.pieces.length);
}
