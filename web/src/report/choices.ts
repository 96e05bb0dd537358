// The choice of a device, a level and a point in time, and a description of what is shown.

import { fill, make, options, say } from "../lib/dom";
import { bytes, count, many, time } from "../lib/format";
import type { Moment } from "./data";
import { item } from "../lib/item";
import { jump } from "./jumps";
import { PAINTS } from "./paints";
import { apart } from "./words";
import {
  AXES, called, chooseAxis, chooseCard, chooseDevice, chooseLevel, chooseMoment, choosePaint, data, device, histories, history, isSurvivors, isWholeRun, level, levelWord, moment, paintBy,
  state, within,
} from "./state";

export function drawChoices(): void {
  const span = data.to - data.from, now = device();
  const size = (then: Moment) => (then.levels[0] ? bytes(then.levels[0].bytes) : "");
  const moments = now.moments.map((then) => `${time(then.time, span)}  ${size(then)}  (${called(then)})`);
  const blocks = history(), levels = (moment()?.levels ?? []).map(levelWord);
  const button = (id: string, text: string, index: number, disabled: boolean) =>
    make("button", { type: "button", id, text, disabled, on: { click: () => { jump(() => { chooseMoment(index); }); } } });
  fill("choices",
    data.devices.length > 1 && options("device", "Device", data.devices.map((of) => `${of.title} ${of.name}`), state.device, chooseDevice),
    options("level", "Show", [...levels, "everything on the card"], state.picture === "card" ? levels.length : state.level,
      (index) => { jump(() => { if (index < levels.length) chooseLevel(index); else chooseCard(); }); }),
    state.picture === "blocks" && blocks && options("paint", "Colour by", PAINTS, PAINTS.indexOf(paintBy(blocks)),
      (index) => { choosePaint(item(PAINTS, index)); }),
    state.picture === "blocks" && blocks && options("axis", "Across", ["time", blocks.whole ? "events" : "events in this page"], AXES.indexOf(state.axis),
      (index) => { chooseAxis(item(AXES, index)); }),
    options("moment", "Moment", moments, state.chosen ? -1 : state.moment, (index) => { jump(() => { chooseMoment(index); }); }),
    button("earlier", "Earlier", state.moment - 1, state.moment <= 0),
    button("later", "Later", state.moment + 1, state.moment >= now.moments.length - 1),
    button("peak", "Peak", now.moments.findIndex((of) => of.kind === "peak"), false));
}

export function sayShown(): void {
  const then = moment(), now = level(), span = data.to - data.from;
  if (!then || !now) {
    say("shown", "Nothing was live on this device.");
    return;
  }
  if (isSurvivors(then)) {
    const unknown = then.unknown[then.levels.indexOf(now)] ?? 0;
    const maybe = unknown ? `, and at most ${bytes(unknown)} more in blocks that are not in this page` : "";
    say("shown", `Shown: what was allocated from ${time(state.from, span)} to ${time(state.to, span)} on ${device().title} and is live at the end of that: ` +
      `${bytes(now.bytes)} of ${levelWord(now)}${maybe}.`);
    return;
  }
  const shown = `Shown: ${device().title} at ${time(then.time, span)}, event ${count(then.seq)}, ${called(then)}: ${bytes(now.bytes)} of ${levelWord(now)}. `;
  fill("shown", offBy(then), shown, isWholeRun() ? make("span", { class: "hint", text: sayMoments() }) : saySelected(span));
}

/** The note that the shown point in time is not the requested one, with the distance. */
function offBy(then: Moment): HTMLElement | null {
  const { asked } = state;
  return asked && make("span", { id: "off", text: `Blocks are left out of this page at event ${count(asked.seq)}: this is the nearest moment that it has in full, ${apart(asked, then)}. ` });
}

function sayMoments(): string {
  if (histories().every((of) => of.whole)) return "Click the chart for any other moment.";
  return `This page has the stacks of ${many(device().moments.length, "moment", "moments")} of this device.`;
}

function saySelected(span: number): string {
  const inside = within().length;
  const selected = `Selected ${time(state.from, span)} to ${time(state.to, span)}`;
  return inside
    ? `${selected}: the greatest of ${many(inside, "moment", "moments")} in it is shown unless another is chosen.`
    : `${selected}: none of the kept moments is in it, the nearest is shown.`;
}
