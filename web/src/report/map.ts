// A map of PyTorch's segments at the moment that is shown.

import { byId, fill, make, say } from "../lib/dom";
import { bytes, count, many } from "../lib/format";
import { item, sumOf } from "../lib/item";
import { named, stepEvents } from "./blocks";
import type { Failure } from "./data";
import type { History } from "./history";
import { type Painted, paintOf, styled } from "./paint";
import { type Placed, type Segment, type Segments, largestFree, liveBytes, segmentsAt } from "./segments";
import { chooseEvent, data, device, histories, moment, pin, state } from "./state";

const ROW = 18, BAR = 14;
/** So many segments are drawn, the largest. */
const MOST_ROWS = 120;

let shown: { tensors: History; map: Segments; wide: number; most: number } | null = null;

function levels(): [tensors: History, driver: History] | null {
  const of = (level: string) => histories().find((history) => history.level === level);
  const tensors = of("tensor"), driver = of("driver");
  return tensors && driver ? [tensors, driver] : null;
}

/** The failure of the device's that the moment is, or the next one after it. */
function failureNow(): Failure | undefined {
  const seq = moment()?.seq ?? 0;
  return data.failures.find((of) => of.device === device().device && of.seq === seq);
}

export function drawMap(): void {
  const both = levels(), then = moment();
  byId("map-section").hidden = !both;
  if (!both || !then) return;
  const [tensors, driver] = both, map = segmentsAt(tensors, driver, then.seq);
  const wide = Math.max(200, byId("map").clientWidth), most = Math.max(1, ...map.pool.map((of) => of.bytes));
  shown = { tensors, map, wide, most };
  const rows = map.pool.slice(0, MOST_ROWS), high = Math.max(1, rows.length * ROW);
  const canvas = make("canvas", { id: "map-canvas", width: wide, height: high, role: "img", tabindex: 0,
    "aria-label": `${many(map.pool.length, "segment", "segments")} of PyTorch's pool, the largest first`,
    on: { pointermove: point, click, keydown: mapKey } });
  const context = canvas.getContext("2d");
  const paint = paintOf(tensors);
  if (context) rows.forEach((segment, row) => { drawSegment(context, segment, row * ROW + 2, paint); });
  const more = map.pool.length - rows.length;
  fill("map", canvas, more > 0 && make("p", { class: "faint", text: `${many(more, "smaller segment is", "smaller segments are")} not drawn.` }));
  sayMap(map, tensors, driver);
}

function cssOf(pixel: number): string {
  return `rgb(${pixel & 0xff} ${pixel >>> 8 & 0xff} ${pixel >>> 16 & 0xff})`;
}

function drawSegment(context: CanvasRenderingContext2D, segment: Segment, top: number, paint: Painted): void {
  if (!shown) return;
  const { tensors, wide, most } = shown, scale = (wide - 2) / most;
  const x = (address: number) => 1 + (address - segment.address) * scale;
  context.fillStyle = styled("--soft");
  context.fillRect(1, top, segment.bytes * scale, BAR);
  for (const { block, address, bytes: size, waits } of segment.blocks) {
    const slack = Math.max(0, item(tensors.slack, block)), from = x(address), to = x(address + size);
    context.fillStyle = waits ? styled("--faint") : cssOf(item(paint.pixels, block));
    context.fillRect(from, top, Math.max(to - from - 0.5, 0.5), BAR);
    if (waits) stripes(context, from, to, top);
    // What was rounded up stands lower.
    context.clearRect(x(address + size - slack), top, slack * scale, BAR / 2);
    if (block === state.pinned) {
      context.strokeStyle = styled("--focus");
      context.lineWidth = 3;
      context.strokeRect(from, top, Math.max(to - from, 2), BAR);
    }
  }
  const failure = failureNow();
  context.lineWidth = 1;
  for (const { address, bytes: size } of failure ? segment.free : []) {
    if (size < (failure?.bytes ?? 0)) continue;
    context.strokeStyle = styled("--good");
    context.strokeRect(x(address) + 1, top + 1, size * scale - 2, BAR - 2);
  }
  context.strokeStyle = styled("--line");
  context.strokeRect(1, top, segment.bytes * scale, BAR);
}

function stripes(context: CanvasRenderingContext2D, from: number, to: number, top: number): void {
  context.strokeStyle = styled("--back");
  context.beginPath();
  for (let x = from; x < to; x += 5) {
    context.moveTo(x, top + BAR);
    context.lineTo(Math.min(x + 5, to), top);
  }
  context.stroke();
}

/** The figures of the map, each with its exact bytes. */
function sayMap(map: Segments, tensors: History, driver: History): void {
  const blocks = map.pool.flatMap((of) => of.blocks), waiting = blocks.filter((of) => of.waits), live = blocks.filter((of) => !of.waits);
  const size = (of: Placed) => of.bytes, slack = (of: Placed) => Math.max(0, item(tensors.slack, of.block));
  const figures: [name: string, bytes: number][] = [
    ["reserved", sumOf(map.pool, (of) => of.bytes)], ["allocated", sumOf(live, size)], ["of that rounded up", sumOf(live, slack)],
    ["waiting for a stream", sumOf(waiting, size)], ["free", sumOf(map.pool.flatMap((of) => of.free), (of) => of.bytes)],
    ["largest free piece", Math.max(0, ...map.pool.map(largestFree))],
    ["driver memory beside the pool", sumOf(map.others, (block) => item(driver.bytes, block))],
  ];
  fill("map-figures", ...figures.flatMap(([name, value]) => [make("dt", { text: name }),
    make("dd", { text: bytes(value), title: many(value, "byte", "bytes"), "data-figure": name, "data-bytes": value })]));
  const asked = failureNow(), pieces = map.pool.flatMap((of) => of.free).filter((of) => asked && of.bytes >= asked.bytes);
  say("map-said", !map.isWhole ? "Blocks are left out of this page that were live then: what looks free may be in use."
    : !asked ? "" : pieces.length
      ? `The request that failed, ${bytes(asked.bytes)}, would fit in ${many(pieces.length, "free piece", "free pieces")} (outlined), which may be another stream's, another pool's or for small blocks.`
      : `The request that failed, ${bytes(asked.bytes)}, fits in no free piece.`);
  say("map-at", " ");
}

/** The segment at a place of the map, and the block there, if one is. */
function placeAt(event: MouseEvent): { segment: Segment; found: Placed | undefined; address: number } | null {
  const canvas = byId("map-canvas", HTMLCanvasElement), box = canvas.getBoundingClientRect();
  const segment = shown?.map.pool[Math.floor(((event.clientY - box.top) / box.height) * canvas.height / ROW)];
  if (!shown || !segment) return null;
  const address = segment.address + (((event.clientX - box.left) / box.width) * canvas.width - 1) / (shown.wide - 2) * shown.most;
  return { segment, address, found: segment.blocks.find((of) => of.address <= address && address < of.address + of.bytes) };
}

/** The lines that have most of a segment, and so keep it from being given back. */
function pinnedBy(tensors: History, segment: Segment): string {
  const lines = new Map<string, number>();
  for (const { block, bytes: size } of segment.blocks) {
    const line = named(tensors, block);
    lines.set(line, (lines.get(line) ?? 0) + size);
  }
  const rows = [...lines].sort((a, b) => b[1] - a[1]);
  return rows.length ? `pinned by ${rows.slice(0, 3).map(([line, size]) => `${bytes(size)} ${line}`).join("; ")}${rows.length > 3 ? `; ${many(rows.length - 3, "more line", "more lines")}` : ""}`
    : "nothing is in it";
}

function point(event: MouseEvent): void {
  const at = placeAt(event);
  if (!at || !shown) {
    say("map-at", " ");
    return;
  }
  const { segment, found } = at, { tensors } = shown;
  const gap = segment.free.find((of) => of.address <= at.address && at.address < of.address + of.bytes);
  const slack = found ? item(tensors.slack, found.block) : 0;
  const what = found
    ? `${bytes(found.bytes)} ${named(tensors, found.block)}${slack > 0 ? `, ${bytes(slack)} of it rounded up` : ""}${found.waits ? ", freed, waits for a stream" : ""}`
    : gap ? `${bytes(gap.bytes)} free` : "";
  say("map-at", `${what} · segment 0x${segment.address.toString(16)}${segment.expandable ? " (expandable)" : ""}, ${bytes(segment.bytes)}, ` +
    `${bytes(liveBytes(segment))} allocated in ${many(segment.blocks.length, "block", "blocks")}; ${pinnedBy(tensors, segment)}${poolOf(segment)}`);
}

/** The stream and the pool of a segment's blocks, where they are not the default ones. */
function poolOf(segment: Segment): string {
  const first = segment.blocks[0], place = first && shown ? item(shown.tensors.placements, first.block) : 0;
  const found = data.placements.find(([number]) => number === place);
  if (!found) return "";
  const [, stream, high, low] = found;
  return `${stream ? `; stream 0x${stream.toString(16)}` : ""}${high || low ? `; pool ${count(high)}.${count(low)} (of a CUDA graph, or the program's own)` : ""}`;
}

function click(event: MouseEvent): void {
  const found = placeAt(event)?.found;
  if (!found) return;
  const tensors = device().history.length ? moment()?.levels.findIndex((of) => of.level === "tensor") ?? 0 : 0;
  if (state.level !== tensors) state.level = Math.max(0, tensors);
  state.picture = "blocks";
  pin(found.block);
}

/** To the failure before or after the moment. */
export function stepFailures(by: number): void {
  const seq = moment()?.seq ?? 0;
  const all = data.failures.filter((of) => of.device === device().device);
  const next = by > 0 ? all.find((of) => of.seq > seq) : all.filter((of) => of.seq < seq).at(-1);
  if (next) chooseEvent(next.seq);
}

function mapKey(event: KeyboardEvent): void {
  if (event.key === "ArrowRight" || event.key === "ArrowLeft") stepEvents(event.key === "ArrowRight" ? 1 : -1);
  else return;
  event.preventDefault();
}

export function startMap(): void {
  const button = (id: string, text: string, does: () => void) => make("button", { type: "button", id, text, on: { click: does } });
  fill("map-bar",
    button("event-before", "Event before", () => { stepEvents(-1); }), button("event-after", "Event after", () => { stepEvents(1); }),
    ...(data.failures.length ? [button("failure-before", "Failure before", () => { stepFailures(-1); }),
      button("failure-after", "Failure after", () => { stepFailures(1); })] : []),
    make("span", { class: "faint", text: "Coloured: allocated; lower half only: rounded up; striped: freed, and waiting for a stream; grey: free. Point for details, click to pin." }));
}

