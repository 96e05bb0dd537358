// What is chosen: a device, a level, a stretch of time, and the moment that all figures are of.

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
/** What the chart shows: a level block by block, or all that the card gave, by its parts. */
export type Picture = "blocks" | "card";

/** What the chart is drawn over. */
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
  /** A moment that is none of the device's: any event, or what a stretch left behind. */
  chosen: null as Moment | null,
  /** The event that was asked for, where the moment is only the nearest to it. */
  asked: null as { seq: number; time: number } | null,
  picture: "blocks" as Picture,
  /** By what the blocks of each level have their colours. What driver memory is for is not known: its lines are told apart. */
  paints: { driver: "line" } as Partial<Record<string, Paint>>,
  /** The block of the level that is looked at by itself. */
  pinned: null as number | null,
  from: data.from,
  to: data.to,
  view: [data.from, data.to] as Span,
  /** The flamegraph's frame that is enlarged. */
  frame: 0,
  /** Whether the flamegraph has frames of dispatch and native ones, and whether the oldest are at its foot. */
  allFrames: false,
  flames: false,
  /** What the chart's axis is of: time, or one event as wide as the next. */
  axis: "time" as Axis,
  /** Bytes at the foot and at the top of the chart; null: all. */
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

/** The blocks of the device's levels; none until they are unpacked. */
export function histories(): readonly History[] {
  return known[state.device] ?? [];
}

/** The blocks of the chosen level. */
export function history(): History | undefined {
  const now = level();
  return now && histories().find((of) => of.level === now.level);
}

/** Pinned host memory of each device, and what is no block. */
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

/** Of moments by their numbers, the one that `order` has first; -1: there are none. */
function best(moments: readonly number[], isBefore: (a: Moment, b: Moment) => boolean): number {
  const all = device().moments;
  return moments.reduce((best, index) => (best < 0 || isBefore(item(all, index), item(all, best)) ? index : best), -1);
}

/** The moment that is nearest to a time; -1: there are none. */
function nearest(at: number): number {
  const apart = (then: Moment) => Math.abs(then.time - at);
  return best([...device().moments.keys()], (a, b) => apart(a) < apart(b));
}

/** The moments that lie in the chosen stretch. */
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

/** By what a level's blocks have their colours. */
export function paintBy({ level }: Pick<Level, "level">): Paint {
  return state.paints[level] ?? "category";
}

export function choosePaint(paint: Paint): void {
  const of = history();
  if (of) state.paints[of.level] = paint;
  tell("view");
}

/** Looks at one block by itself. */
export function pin(block: number | null): void {
  state.pinned = block;
  tell("pinned");
}

/** The moment just after an event; the nearest one of the device's where blocks are left out that were live then. */
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

/** When an event was, as far as the page knows. */
function timeOf(seq: number): number {
  return Math.max(0, ...histories().map(({ ticks }) => ticks.times[Math.max(0, lastUpTo(ticks.seqs, seq))] ?? 0));
}

/** What a click on an event shows where it is not the moment just after it. */
export function insteadOf(seq: number): Moment | undefined {
  return histories().every((of) => isKnown(of, seq)) ? undefined : device().moments[nearest(timeOf(seq))];
}

/** What was allocated in the chosen stretch and was live at its end. */
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

/** A stretch of time: its greatest moment is shown, or the nearest one if it has none. */
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

/** The bytes from the chart's foot to its top; null: all that the view has. */
export function chooseScale(scale: Span | null): void {
  state.scale = scale && scale[1] > scale[0] ? scale : null;
  tell("view");
}

let isComing = false;

/** The same with what is drawn once a frame: for a pointer that goes on moving. */
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
