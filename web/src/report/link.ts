// What is chosen as the end of the page's address, so that it can be sent to somebody: #at=oom, #at=4862&show=driver, …

import { item } from "../lib/item";
import type { MomentKind } from "./data";
import { MAP_NAMES, chooseCard, chooseDevice, chooseEvent, chooseLevel, chooseMap, chooseMoment, chooseView, data, device, level, moment, on, state } from "./state";

/** Moments that have a name in a link. */
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
  return `#${of.toString()}`;
}

function follow(): void {
  const of = new URLSearchParams(location.hash.slice(1));
  const at = of.get("at"), show = of.get("show"), named = of.get("device"), view = /^(\d+)-(\d+)$/.exec(of.get("view") ?? "");
  const map = MAP_NAMES.find((name) => name === of.get("map"));
  if (map && map !== state.map) chooseMap(map);
  const index = data.devices.findIndex((each) => String(each.device ?? "none") === named);
  if (index >= 0 && index !== state.device) chooseDevice(index);
  const levels = moment()?.levels ?? [], place = levels.findIndex((each) => each.level === show);
  if (show === "card") chooseCard();
  else if (place >= 0 && place !== state.level) chooseLevel(place);
  if (view) chooseView(Math.max(data.from, Number(view[1])), Math.min(data.to, Number(view[2])));
  if (at === null) return;
  const named_ = device().moments.findIndex((then) => NAMES[then.kind] === at);
  if (named_ >= 0) chooseMoment(named_);
  else if (at === "oom" && data.failures.length) chooseEvent(item(data.failures, 0).seq);
  else if (/^\d+$/.test(at)) chooseEvent(Number(at));
}

/** Goes where the address says, and keeps the address as what is shown. Called once blocks are there. */
export function startLinks(): void {
  let isStarted = false, written = "";
  on((what) => {
    if (what === "blocks" && !isStarted) {
      isStarted = true;
      if (location.hash.length > 1) follow();
    } else if (isStarted) {
      written = link();
      history.replaceState(null, "", written);
    }
  });
  addEventListener("hashchange", () => {
    if (location.hash !== written) follow();
  });
}
