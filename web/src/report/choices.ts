// The choice of a device, a level and a moment, and what is shown in words.

import { fill, make, options, say } from "../lib/dom";
import { bytes, count, many, time } from "../lib/format";
import type { Moment } from "./data";
import { called, chooseDevice, chooseLevel, chooseMoment, data, device, isWholeRun, level, levelWord, moment, state, within } from "./state";

export function drawChoices(): void {
  const span = data.to - data.from, now = device();
  const size = (then: Moment) => (then.levels[0] ? bytes(then.levels[0].bytes) : "");
  const moments = now.moments.map((then) => `${time(then.time, span)}  ${size(then)}  (${called(then)})`);
  const levels = (moment()?.levels ?? []).map(levelWord);
  const button = (id: string, text: string, index: number, disabled: boolean) =>
    make("button", { type: "button", id, text, disabled, on: { click: () => { chooseMoment(index); } } });
  fill("choices",
    data.devices.length > 1 && options("device", "Device", data.devices.map((of) => `${of.title} ${of.name}`), state.device, chooseDevice),
    levels.length > 1 && options("level", "Figures of", levels, state.level, chooseLevel),
    options("moment", "Moment", moments, state.moment, chooseMoment),
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
  const shown = `Shown: ${device().title} at ${time(then.time, span)}, event ${count(then.seq)}, ${called(then)}: ${bytes(now.bytes)} of ${levelWord(now)}. `;
  say("shown", shown + (isWholeRun() ? sayMoments() : saySelected(span)));
}

function sayMoments(): string {
  return `This page has the stacks of ${many(device().moments.length, "moment", "moments")} of this device.`;
}

function saySelected(span: number): string {
  const inside = within().length;
  const selected = `Selected ${time(state.from, span)} to ${time(state.to, span)}`;
  return inside
    ? `${selected}: the greatest of ${many(inside, "moment", "moments")} in it is shown unless another is chosen.`
    : `${selected}: none of the kept moments is in it, the nearest is shown.`;
}
