// What is chosen: a device, a level, a stretch of time, and the moment that all figures are of.

const data = JSON.parse(document.getElementById("data").textContent);
const listeners = [];
const state = { device: 0, level: 0, moment: 0, from: data.from, to: data.to, view: [data.from, data.to], frame: 0 };

function device() {
  return data.devices[state.device];
}

function moment() {
  return device() ? device().moments[state.moment] : undefined;
}

function level() {
  return moment() ? moment().levels[Math.min(state.level, moment().levels.length - 1)] : undefined;
}

function on(changed) {
  listeners.push(changed);
}

// Tells everybody what changed: "device", "level", "range", "view" or "moment".
function tell(what) {
  for (const listener of listeners) listener(what);
}

function greatest(moments) {
  const of = (index) => {
    const found = device().moments[index].levels[0];
    return found ? found.bytes : 0;
  };
  return moments.reduce((best, index) => (best < 0 || of(index) > of(best) ? index : best), -1);
}

// The moments that lie in the chosen stretch.
function within() {
  return device().moments
    .map((then, index) => [then.time, index])
    .filter(([at]) => at >= state.from && at <= state.to)
    .map(([, index]) => index);
}

function chooseDevice(index) {
  state.device = index;
  state.level = 0;
  const shown = device().moments.findIndex((then) => then.seq === data.shown);
  const peak = device().moments.findIndex((then) => then.kind === "peak");
  state.moment = Math.max(shown < 0 ? peak : shown, 0);
  [state.from, state.to] = [data.from, data.to];
  tell("device");
}

function chooseLevel(index) {
  state.level = index;
  tell("level");
}

function chooseMoment(index) {
  const last = device().moments.length - 1;
  state.moment = Math.max(0, Math.min(last, index));
  tell("moment");
}

// A stretch of time: its greatest moment is shown, or the nearest one if it has none.
function chooseRange(from, to) {
  state.from = Math.max(data.from, Math.min(from, to));
  state.to = Math.min(data.to, Math.max(from, to));
  const inside = within();
  if (inside.length) {
    state.moment = greatest(inside);
  } else {
    const middle = (state.from + state.to) / 2;
    const apart = (index) => Math.abs(device().moments[index].time - middle);
    const all = device().moments.map((_, index) => index);
    state.moment = all.reduce((best, index) => (apart(index) < apart(best) ? index : best), 0);
  }
  tell("range");
}

function chooseView(from, to) {
  state.view = to > from ? [from, to] : [data.from, data.to];
  tell("view");
}

function called(then) {
  const kinds = { peak: "the peak", end: "the end", most: "most of its stretch", failure: "the failure", asked: "asked for" };
  return kinds[then.kind] || then.kind;
}

function levelWord(of) {
  return of.level === "tensor" ? "tensors" : "driver level";
}

function wholeRun() {
  return state.from <= data.from && state.to >= data.to;
}
