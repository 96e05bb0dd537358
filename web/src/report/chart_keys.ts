// The chart by keys, and by a wheel.

import { timeAt } from "./axis";
import { stepBlocks, stepEvents } from "./blocks";
import { placeOf } from "./brush";
import { chooseView, chooseViewSoon, data, moment, pin, state } from "./state";

const CLOSER = 0.7, FARTHER = 1 / CLOSER;
/** What a key moves the view by, as a share of it. */
const PAN = 0.2;

/** The view as many times as long, with a time where it is; never beyond the run. */
export function zoomAbout(at: number, times: number): void {
  const [from, to] = state.view;
  const left = at - (at - from) * times, right = at + (to - at) * times;
  if (right - left < 2) return;
  chooseViewSoon(Math.max(data.from, Math.round(left)), Math.min(data.to, Math.round(right)));
}

export function panBy(share: number): void {
  const [from, to] = state.view, span = to - from;
  const by = Math.max(data.from - from, Math.min(data.to - to, Math.round(span * share)));
  if (by) chooseViewSoon(from + by, to + by);
}

/** The middle of the view, or the moment where that is in it. */
function middle(): number {
  const [from, to] = state.view, at = moment()?.time ?? from;
  return at >= from && at <= to ? at : (from + to) / 2;
}

const KEYS: Record<string, () => void> = {
  "ArrowRight": () => { stepEvents(1); },
  "ArrowLeft": () => { stepEvents(-1); },
  "Shift+ArrowRight": () => { panBy(PAN); },
  "Shift+ArrowLeft": () => { panBy(-PAN); },
  "PageDown": () => { panBy(1); },
  "PageUp": () => { panBy(-1); },
  "ArrowUp": () => { stepBlocks(1); },
  "ArrowDown": () => { stepBlocks(-1); },
  "+": () => { zoomAbout(middle(), CLOSER); },
  "=": () => { zoomAbout(middle(), CLOSER); },
  "-": () => { zoomAbout(middle(), FARTHER); },
  "0": () => { chooseView(data.from, data.to); },
  "Enter": () => { chooseView(state.from, state.to); },
  "Escape": () => { pin(null); },
};

export function chartKey(event: KeyboardEvent): void {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const key = event.shiftKey && event.key.startsWith("Arrow") ? `Shift+${event.key}` : event.key;
  const does = KEYS[key];
  if (!does) return;
  does();
  event.preventDefault();
}

/** With Ctrl, as a pinch of two fingers comes, the view grows or shrinks about the pointer; with Shift it moves. */
export function chartWheel(event: WheelEvent): void {
  if (!event.ctrlKey && !event.shiftKey) return;
  const by = event.deltaY || event.deltaX;
  if (event.ctrlKey) zoomAbout(timeAt(placeOf(event)[0]), Math.exp(Math.max(-1, Math.min(1, by / 200))));
  else panBy(by / 1000);
  event.preventDefault();
}
