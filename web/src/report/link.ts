// The choices as the fragment of the page's URL, so that it can be shared: #at=oom, #at=4862&show=driver, …

import { item } from "../lib/item";
import type { MomentKind } from "./data";
import { takeJump } from "./jumps";
import {
  MAP_NAMES, type Span, chooseCard, chooseDevice, chooseEvent, chooseLevel, chooseMap, chooseMoment, chooseScale, chooseView, data, device, level, moment, on, state, tell,
} from "./state";

/** Points in time with a name in links. */
const NAMES: Partial<Record<MomentKind, string>> = { peak: "peak", end: "end", failure: "oom" };

/** The link to what is shown. */
export function link(): string {
  const of = new URLSearchParams(), then = moment(), [from, to] = state.view;
  if (then) of.set("at", NAMES[then.kind] ?? String(then.seq));
  if (data.devices.length > 1) of.set("device", String(device().device ?? "none"));
  if (state.picture === "card") of.set("show", "card");
  else if (level()) of.set("show", level()?.level ?? "");
  if (state.map !== "segments") of.set("map", state.map);
  if (from > data.from || to < data.to) of.set("view", `${from}-${to}`);
  if (state.scale) of.set("bytes", state.scale.join("-"));
  if (state.axis === "event") of.set("axis", "event");
  if (state.frame) of.set("frame", String(state.frame));
  if (state.allFrames) of.set("frames", "all");
  if (state.flames) of.set("flames", "up");
  return `#${of.toString()}`;
}

function spanOf(text: string | null): Span | null {
  const found = /^(\d+)-(\d+)$/.exec(text ?? "");
  return found && [Number(found[1]), Number(found[2])];
}

/** Applies the URL. `isAll`: choices that it does not name are reset; otherwise they stay unchanged. */
function follow(isAll: boolean): void {
  const of = new URLSearchParams(location.hash.slice(1));
  const has = (name: string) => isAll || of.has(name);
  const at = of.get("at"), show = of.get("show"), named = of.get("device"), view = spanOf(of.get("view")), frame = of.get("frame") ?? "0";
  const map = MAP_NAMES.find((name) => name === (of.get("map") ?? "segments"));
  if (has("map") && map && map !== state.map) chooseMap(map);
  const index = data.devices.findIndex((each) => String(each.device ?? "none") === named);
  if (index >= 0 && index !== state.device) chooseDevice(index);
  const levels = moment()?.levels ?? [], place = levels.findIndex((each) => each.level === show);
  if (show === "card") chooseCard();
  else if (place >= 0 && (place !== state.level || state.picture === "card")) chooseLevel(place);
  if (has("axis")) state.axis = of.get("axis") === "event" ? "event" : "time";
  if (has("frames")) state.allFrames = of.get("frames") === "all";
  if (has("flames")) state.flames = of.get("flames") === "up";
  if (has("bytes")) chooseScale(spanOf(of.get("bytes")));
  if (view) chooseView(Math.max(data.from, view[0]), Math.min(data.to, view[1]));
  else if (isAll) chooseView(data.from, data.to);
  const named_ = device().moments.findIndex((then) => NAMES[then.kind] === at);
  if (named_ >= 0) chooseMoment(named_);
  else if (at === "oom" && data.failures.length) chooseEvent(item(data.failures, 0).seq);
  else if (at !== null && /^\d+$/.test(at)) chooseEvent(Number(at));
  if (has("frame") && /^\d+$/.test(frame)) state.frame = Number(frame);
  if (has("frame") || has("frames") || has("flames")) tell("frame");
}

/** The state of an entry in the browser's history that names all choices. */
const ALL = "all";
/** A moved view is written after this many ms. */
const REST = 250;

/**
 * Applies the URL, and keeps it up to date. A jump is a separate entry in the browser's history, so that Back
 * returns to the previous choices. Call it once blocks are there.
 */
export function startLinks(): void {
  let isStarted = false, written = "", later = 0;
  const write = () => {
    clearTimeout(later);
    later = 0;
    history.replaceState(ALL, "", written);
  };
  on((what) => {
    if (what === "blocks" && !isStarted) {
      isStarted = true;
      written = link();
      if (location.hash.length > 1) follow(false);
    } else if (isStarted) {
      const now = link(), isJump = takeJump() && now !== written;
      if (isJump) {
        write();
        history.pushState(ALL, "", now);
      }
      written = now;
      // A view may move with each frame, and browsers are slow to write a URL, so it is written when the view rests.
      if (what === "view" && !isJump) later ||= setTimeout(write, REST);
      else if (!isJump) write();
    }
  });
  addEventListener("popstate", (event) => {
    if (event.state !== ALL) return;
    written = location.hash;
    follow(true);
  });
  addEventListener("hashchange", () => {
    if (location.hash !== written) follow(false);
  });
}
