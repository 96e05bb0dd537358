// Keys and wheel of the chart.

import { EventAxis, TOP, timeAt, viewAxis } from "./axis";
import { bytesAt, stepBlocks, stepEvents } from "./blocks";
import { placeOf } from "./brush";
import { enlarge, middleOfScale, moveScale, scaleAbout } from "./scale";
import { type Span, chooseAxis, chooseView, chooseViewSoon, data, moment, pin, state } from "./state";

const CLOSER = 0.7, FARTHER = 1 / CLOSER;
/** The share of the view by which a key moves it. */
const PAN = 0.2;

/** Scales the view by a factor, keeping the position of a time; never beyond the run. */
export function zoomAbout(at: number, times: number): void {
  const [from, to] = state.view;
  const left = at - (at - from) * times, right = at + (to - at) * times;
  const axis = viewAxis();
  if (axis instanceof EventAxis) {
    const place = axis.share(at);
    moveTo(axis.span(place - place * times, place + (1 - place) * times));
    return;
  }
  if (right - left < 2) return;
  chooseViewSoon(Math.max(data.from, Math.round(left)), Math.min(data.to, Math.round(right)));
}

/** Shows this interval; the view stays unchanged if the interval is empty. */
function moveTo([from, to]: Span): void {
  if (to > from) chooseViewSoon(from, to);
}

export function panBy(share: number): void {
  const axis = viewAxis();
  if (axis instanceof EventAxis) {
    const last = axis.of.ticks.times.length, by = Math.max(-axis.first / axis.count, Math.min((last - axis.first) / axis.count - 1, share));
    moveTo(axis.span(by, 1 + by));
    return;
  }
  const [from, to] = state.view, span = to - from;
  const by = Math.max(data.from - from, Math.min(data.to - to, Math.round(span * share)));
  if (by) chooseViewSoon(from + by, to + by);
}

/** The middle of the view, or the point in time if it is in the view. */
function middle(): number {
  const [from, to] = state.view, at = moment()?.time ?? from;
  return at >= from && at <= to ? at : (from + to) / 2;
}

function scaleBy(times: number): void {
  const [, most] = bytesAt(0);
  if (state.picture === "blocks") scaleAbout(middleOfScale(most), times, most);
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
  ">": () => { scaleBy(CLOSER); },
  "<": () => { scaleBy(FARTHER); },
  "Shift+ArrowUp": () => { moveScale(PAN); },
  "Shift+ArrowDown": () => { moveScale(-PAN); },
  "e": enlarge,
  "a": () => { chooseAxis(state.axis === "time" ? "event" : "time"); },
  "0": () => {
    state.scale = null;
    chooseView(data.from, data.to);
  },
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

/**
 * With Ctrl, which browsers also report for a pinch, zooms the view about the pointer; with Shift zooms its bytes;
 * sideways moves it.
 */
export function chartWheel(event: WheelEvent): void {
  const by = event.deltaY || event.deltaX, times = Math.exp(Math.max(-1, Math.min(1, by / 200))), [x, y] = placeOf(event);
  if (event.ctrlKey) zoomAbout(timeAt(x), times);
  else if (event.shiftKey && state.picture === "blocks") {
    const [at, most] = bytesAt(y - TOP);
    scaleAbout(at, times, most);
  } else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) panBy(event.deltaX / 1000);
  else return;
  event.preventDefault();
}
