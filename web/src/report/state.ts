// The choices: a device, a level, an interval of time, and the point in time of all figures.

import { byId } from "../lib/dom";
import { item } from "../lib/item";
import { type Survivors, isKnown, momentAt, survivors } from "./at";
import { type History, lastUpTo, unpacked } from "./history";
import { type Spans, unpackedSpans } from "./spans";
import type { Paint } from "./paints";
import type { Device, Level, Moment, MomentKind, Page } from "./data";

/** From, to. */
export type Span = [number, number];
/** What changed. */
export type Change = "device" | "level" | "range" | "view" | "moment" | "blocks" | "pinned" | "found" | "frame";
/** The content of the chart: a level block by block, or all physical memory by its parts. */
export type Picture = "blocks" | "card";

/** The quantities of the chart's horizontal axis. */
export const AXES = ["time", "event"] as const;
export type Axis = (typeof AXES)[number];

/** The maps of memory: PyTorch's segments, other driver allocations, address space, pools. */
export const MAP_NAMES = ["segments", "driver", "vmm", "pools"] as const;
export type MapName = (typeof MAP_NAMES)[number];

export const data = JSON.parse(byId("data").textContent) as Page;

export const state = {
  device: 0,
  level: 0,
  moment: 0,
  /** A point in time that the device does not list: any event, or the memory that an interval left. */
  chosen: null as Moment | null,
  /** The requested event, if the shown point in time is only the nearest to it. */
  asked: null as { seq: number; time: number } | null,
  picture: "blocks" as Picture,
  /**
   * What determines the colours of each level's blocks. Driver memory has no categories, so its lines have the
   * colours.
   */
  paints: { driver: "line" } as Partial<Record<string, Paint>>,
  /** The pinned block of the level. */
  pinned: null as number | null,
  from: data.from,
  to: data.to,
  view: [data.from, data.to] as Span,
  /** The enlarged frame of the flamegraph. */
  frame: 0,
  /** Whether the flamegraph has dispatch and native frames, and whether the oldest are at its bottom. */
  allFrames: false,
  flames: false,
  /** The quantity of the chart's axis: time, or events of equal width. */
  axis: "time" as Axis,
  /** Bytes at the bottom and at the top of the chart; null: all. */
  scale: null as Span | null,
  map: "segments" as MapName,
};

const listeners: ((what: Change) => void)[] = [];

export function on(changed: (what: Change) => void): void {
  listeners.push(changed);
}

export function tell(what: Change): void {
  for (const listener of listeners) listener(what);
}

export function device(): Device {
  return item(data.devices, state.device);
}

/** The blocks of each level of each device, once they are unpacked. */
const known: (readonly History[])[] = [];

/** The blocks of the device's levels; empty until they are unpacked. */
export function histories(): readonly History[] {
  return known[state.device] ?? [];
}

/** The blocks of the chosen level. */
export function history(): History | undefined {
  const now = level();
  return now && histories().find((of) => of.level === now.level);
}

/** Pinned host memory of each device, and spans. */
const hosts: (History | null)[] = [];
let spans: Spans | undefined;

export function hostHistory(): History | null {
  return hosts[state.device] ?? null;
}

export function allSpans(): Spans | undefined {
  return spans;
}

async function unpack(index: number): Promise<void> {
  const of = item(data.devices, index);
  spans ??= await unpackedSpans(data.spans);
  hosts[index] ??= of.host && await unpacked(of.host, data.events);
  known[index] ??= await Promise.all(of.history.map((part) => unpacked(part, data.events)));
  if (index === state.device) tell("blocks");
}

export function moment(): Moment | undefined {
  return state.chosen ?? device().moments[state.moment];
}

export function level(): Level | undefined {
  const levels = moment()?.levels ?? [];
  return levels[Math.min(state.level, levels.length - 1)];
}

/** Of points in time given by index, the first by `isBefore`; -1 if the list is empty. */
function best(moments: readonly number[], isBefore: (a: Moment, b: Moment) => boolean): number {
  const all = device().moments;
  return moments.reduce((best, index) => (best < 0 || isBefore(item(all, index), item(all, best)) ? index : best), -1);
}

/** The point in time nearest to a time; -1 without any. */
function nearest(at: number): number {
  const apart = (then: Moment) => Math.abs(then.time - at);
  return best([...device().moments.keys()], (a, b) => apart(a) < apart(b));
}

/** The points in time in the chosen interval. */
export function within(): number[] {
  const all = device().moments;
  return [...all.keys()].filter((index) => {
    const at = item(all, index).time;
    return at >= state.from && at <= state.to;
  });
}

export function chooseDevice(index: number): void {
  state.device = index;
  state.level = 0;
  [state.chosen, state.pinned, state.asked, state.scale] = [null, null, null, null];
  state.picture = device().history.length ? "blocks" : "card";
  const shown = device().moments.findIndex((then) => then.seq === data.shown);
  const peak = device().moments.findIndex((then) => then.kind === "peak");
  state.moment = Math.max(shown < 0 ? peak : shown, 0);
  [state.from, state.to] = [data.from, data.to];
  tell("device");
  void unpack(index);
}

export function chooseLevel(index: number): void {
  state.level = index;
  [state.pinned, state.scale] = [null, null];
  state.picture = "blocks";
  tell("level");
}

export function chooseCard(): void {
  state.picture = "card";
  tell("level");
}

export function chooseAxis(axis: Axis): void {
  state.axis = axis;
  tell("view");
}

export function chooseMap(name: MapName): void {
  state.map = name;
  tell("pinned");
}

/** What determines the colours of a level's blocks. */
export function paintBy({ level }: Pick<Level, "level">): Paint {
  return state.paints[level] ?? "category";
}

export function choosePaint(paint: Paint): void {
  const of = history();
  if (of) state.paints[of.level] = paint;
  tell("view");
}

/** Pins a block. */
export function pin(block: number | null): void {
  state.pinned = block;
  tell("pinned");
}

/**
 * Shows the point in time just after an event; or the device's nearest one, if blocks that were live then are not in
 * the page.
 */
export function chooseEvent(seq: number): void {
  const at = histories().length ? momentAt(histories(), seq) : undefined;
  if (at) {
    // Events that change no level have times as well.
    for (const of of [hostHistory()?.ticks, spans]) {
      const tick = of ? lastUpTo(of.seqs, seq) : -1;
      if (of && tick >= 0) at.time = Math.max(at.time, item(of.times, tick));
    }
    [state.chosen, state.asked] = [at, null];
    tell("moment");
    return;
  }
  const asked = { seq, time: timeOf(seq) };
  const index = nearest(asked.time);
  if (index >= 0) show(index, asked);
}

/** The time of an event, as far as the page has it. */
function timeOf(seq: number): number {
  return Math.max(0, ...histories().map(({ ticks }) => ticks.times[Math.max(0, lastUpTo(ticks.seqs, seq))] ?? 0));
}

/** What a click on an event shows if it is not the point in time just after it. */
export function insteadOf(seq: number): Moment | undefined {
  return histories().every((of) => isKnown(of, seq)) ? undefined : device().moments[nearest(timeOf(seq))];
}

/** Shows the blocks allocated in the chosen interval and live at its end. */
export function chooseSurvivors(): void {
  const seqAt = (time: number) => Math.max(-1, ...histories().map(({ ticks }) => {
    const tick = lastUpTo(ticks.times, time);
    return tick < 0 ? -1 : item(ticks.seqs, tick);
  }));
  [state.chosen, state.asked] = [survivors(histories(), seqAt(state.from), seqAt(state.to)), null];
  tell("moment");
}

function show(index: number, asked: typeof state.asked): void {
  [state.chosen, state.asked] = [null, asked];
  state.moment = Math.max(0, Math.min(device().moments.length - 1, index));
  tell("moment");
}

export function chooseMoment(index: number): void {
  show(index, null);
}

export function chooseNearest(at: number): void {
  const index = nearest(at);
  if (index >= 0) chooseMoment(index);
}

/** Chooses an interval of time and shows its highest point in time, or the nearest one if it has none. */
export function chooseRange(from: number, to: number): void {
  state.from = Math.max(data.from, Math.min(from, to));
  state.to = Math.min(data.to, Math.max(from, to));
  [state.chosen, state.asked] = [null, null];
  const size = (then: Moment) => then.levels[0]?.bytes ?? 0;
  const greatest = best(within(), (a, b) => size(a) > size(b));
  state.moment = greatest >= 0 ? greatest : Math.max(nearest((state.from + state.to) / 2), 0);
  tell("range");
}

export function chooseView(from: number, to: number): void {
  state.view = to > from ? [from, to] : [data.from, data.to];
  tell("view");
}

/** Sets the bytes from the chart's bottom to its top; null: all that the view has. */
export function chooseScale(scale: Span | null): void {
  state.scale = scale && scale[1] > scale[0] ? scale : null;
  tell("view");
}

let isComing = false;

/** The same, drawn once per frame, for a moving pointer. */
export function chooseViewSoon(from: number, to: number): void {
  state.view = to > from ? [from, to] : [data.from, data.to];
  if (isComing) return;
  isComing = true;
  requestAnimationFrame(() => {
    isComing = false;
    tell("view");
  });
}

const KINDS: Record<MomentKind, string> = {
  peak: "the peak", end: "the end", most: "most in its interval", failure: "the failure", asked: "requested",
  event: "chosen", survivors: "the end of the selection",
};

export function called(then: Moment): string {
  return KINDS[then.kind];
}

export function levelWord(of: Pick<Level, "level">): string {
  return of.level === "tensor" ? "tensors" : of.level === "host" ? "pinned host memory" : "driver level";
}

export function isWholeRun(): boolean {
  return state.from <= data.from && state.to >= data.to;
}

export function isSurvivors(then: Moment): then is Survivors {
  return then.kind === "survivors";
}
