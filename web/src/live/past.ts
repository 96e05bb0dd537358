// The point in time that the page shows: now, or a past one.

import { byId, say } from "../lib/dom";
import { count, time } from "../lib/format";
import { ask, giveUp } from "./ask";
import type { Peak } from "./data";
import { KINDS, choice, newest, redraw, show, shown, view } from "./state";

function sayPlace(text: string): void {
  say("moment-state", text);
}

/** Shows a past point in time: `at` is event:N or time:N. If the request fails, the page stays unchanged. */
export async function goTo(at: string, name?: string, isWanted: () => boolean = () => true): Promise<void> {
  const told = await ask(at, "frame", choice, sayPlace);
  if (!told || !isWanted()) return;
  view.past = { at, name };
  shown.now = told.now;
  shown.table = told.table;
  for (const kind of ["now", "table", "course"] as const) if (shown[kind]) redraw(kind);
  drawPlace();
}

function goToPeak(isWanted?: () => boolean): void {
  const level = shown.table?.level;
  const all = (newest.now?.peaks ?? []).filter((of) => of.level === level && (!choice.device || String(of.device) === choice.device));
  const peak = all.reduce<Peak | null>((most, of) => (most && most.bytes >= of.bytes ? most : of), null);
  if (peak) void goTo(`event:${peak.seq}`, peak.device === 255 ? "the peak" : `the peak of GPU ${peak.device}`, isWanted);
  else sayPlace("No memory of this level so far.");
}

let isOpened = false;
/** Whether the reader has chosen something, and stays there. */
let hasChosen = false;

/** Opens a capture that has ended at its peak: at its end, most memory is freed. */
export function openAtPeak(): void {
  const state = newest.now?.state;
  if (isOpened || hasChosen || !newest.table || !state || state === "reading") return;
  isOpened = true;
  if (!view.past && (state === "ended" || state === "killed")) goToPeak(() => !hasChosen);
}

function goToNow(): void {
  view.past = null;
  view.paused = false;
  giveUp();
  sayPlace("");
  redraw("choices");
  KINDS.forEach(show);
  drawPlace();
}

export function drawPlace(): void {
  const slider = byId("time", HTMLInputElement), then = view.past && shown.now;
  if (newest.now) slider.max = String(newest.now.time);
  if (document.activeElement !== slider) slider.value = then ? String(then.time) : slider.max;
  byId("back", HTMLButtonElement).disabled = !view.past;
  say("devices-head", view.past ? "Devices then" : "Devices now");
  say("shown", then ? `at ${view.past?.name ?? time(then.time)}, event ${count(then.seq)}` : "now");
}

export function startPlace(): void {
  const slider = byId("time", HTMLInputElement);
  slider.addEventListener("change", () => {
    const nanos = Number(slider.value);
    if (newest.now && nanos >= newest.now.time) goToNow();
    else void goTo(`time:${nanos}`);
  });
  byId("peak").addEventListener("click", () => { goToPeak(); });
  byId("back").addEventListener("click", goToNow);
  const stay = () => { hasChosen = true; };
  for (const kind of ["change", "click"]) document.addEventListener(kind, stay, { capture: true, once: true });
}
