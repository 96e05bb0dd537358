// The head, the choices, and who redraws what.

function drawHead() {
  document.getElementById("file").textContent = data.file;
  document.getElementById("ran").textContent = data.ran;
  const [claim, ...more] = data.account;
  const missing = data.missing.length &&
    make("ul", { "aria-label": "What is missing" }, data.missing.map((line) => make("li", { class: "not-exact", text: line })));
  const failed = data.failure_count > 0 &&
    make("p", { class: "failed", text: many(data.failure_count, "allocation", "allocations") + " failed for want of memory" +
      (data.retries ? `; ${many(data.retries, "retry", "retries")} by PyTorch's allocator besides, which then had the memory` : "") });
  const why = data.cause && make("p", { id: "cause" }, [make("strong", { text: "Cause: " }), data.cause.what, make("br", {}),
    make("strong", { text: "To change: " }), data.cause.advice, make("br", {}), make("strong", { text: "Held then: " }),
    data.cause.owners.map((of) => `${bytes(of.bytes)} ${of.line} ${of.function}`.trim() + purpose(of.categories)).join(", ")]);
  fill("account", make("p", { class: data.exact ? "exact" : "not-exact", text: claim }), missing, failed, why,
    ...more.map((line) => make("p", { class: "faint", text: line })));
}

// What most of a line's tensors are for.
function purpose(categories) {
  const [most, ...others] = categories || [];
  return most ? ` (${others.length ? "mostly " : ""}${most.category})` : "";
}

function options(id, label, names, chosen, choose) {
  const select = make("select", { id, onchange: (event) => choose(Number(event.target.value)) },
    names.map((name, index) => make("option", { value: index, selected: index === chosen, text: name })));
  return make("label", {}, [label, select]);
}

function drawChoices() {
  const span = data.to - data.from, now = device();
  const size = (then) => (then.levels[0] ? bytes(then.levels[0].bytes) : "");
  const moments = now.moments.map((then) => `${time(then.time, span)}  ${size(then)}  (${called(then)})`);
  const levels = (moment() ? moment().levels : []).map(levelWord);
  fill("choices",
    data.devices.length > 1 && options("device", "Device", data.devices.map((of) => `${of.title} ${of.name}`), state.device, chooseDevice),
    levels.length > 1 && options("level", "Figures of", levels, state.level, chooseLevel),
    options("moment", "Moment", moments, state.moment, chooseMoment),
    make("button", { type: "button", id: "earlier", text: "Earlier", disabled: state.moment <= 0, onclick: () => chooseMoment(state.moment - 1) }),
    make("button", { type: "button", id: "later", text: "Later", disabled: state.moment >= now.moments.length - 1, onclick: () => chooseMoment(state.moment + 1) }),
    make("button", { type: "button", id: "peak", text: "Peak", onclick: () => chooseMoment(now.moments.findIndex((of) => of.kind === "peak")) }));
}

const NOTCHES = 1000;

function slider(id, label, at, choose) {
  const span = Math.max(data.to - data.from, 1);
  const input = make("input", { type: "range", id, min: 0, max: NOTCHES, value: Math.round((at - data.from) / span * NOTCHES),
    "aria-valuetext": time(at, span), oninput: (event) => {
      choose(data.from + span * Number(event.target.value) / NOTCHES);
    } });
  return make("label", {}, [label, input, make("output", { for: id, text: time(at, span) })]);
}

function startBrush() {
  fill("brush",
    slider("from", "From", state.from, (at) => chooseRange(Math.min(at, state.to), state.to)),
    slider("to", "To", state.to, (at) => chooseRange(state.from, Math.max(at, state.from))),
    make("button", { type: "button", id: "zoom", text: "Zoom to the selection", onclick: () => chooseView(state.from, state.to) }),
    make("button", { type: "button", id: "whole", text: "Whole run", onclick: () => {
      chooseRange(data.from, data.to);
      chooseView(data.from, data.to);
    } }),
    make("span", { class: "faint", text: "Drag over the chart, or use the sliders, to select a stretch of time." }));
}

// The sliders stay where they are while they are moved.
function drawBrush() {
  const span = Math.max(data.to - data.from, 1);
  for (const [id, at] of [["from", state.from], ["to", state.to]]) {
    const input = document.getElementById(id);
    input.value = Math.round((at - data.from) / span * NOTCHES);
    input.setAttribute("aria-valuetext", time(at, span));
    input.nextElementSibling.textContent = time(at, span);
  }
}

function drawShown() {
  const then = moment(), now = level(), span = data.to - data.from;
  if (!then || !now) {
    document.getElementById("shown").textContent = "Nothing was live on this device.";
    return;
  }
  let said = `Shown: ${device().title} at ${time(then.time, span)}, event ${count(then.seq)}, ${called(then)}: ${bytes(now.bytes)} of ${levelWord(now)}. `;
  if (!wholeRun()) {
    const inside = within().length;
    said += inside
      ? `Selected ${time(state.from, span)} to ${time(state.to, span)}: the greatest of ${many(inside, "moment", "moments")} in it is shown unless another is chosen.`
      : `Selected ${time(state.from, span)} to ${time(state.to, span)}: none of the kept moments is in it, the nearest is shown.`;
  } else {
    said += `This page has the stacks of ${many(device().moments.length, "moment", "moments")} of this device.`;
  }
  document.getElementById("shown").textContent = said;
}

// A control that is drawn anew keeps the focus.
function keeping(redraw) {
  const id = document.activeElement && document.activeElement.id;
  redraw();
  const again = id && document.getElementById(id);
  if (again && again !== document.activeElement) again.focus();
}

function main() {
  drawHead();
  drawFailures();
  if (!data.devices.length) {
    document.querySelectorAll("main > section").forEach((of) => { of.hidden = of.id !== "failures-section" || !data.failure_count; });
    document.querySelector("main").prepend(make("p", { text: "No GPU memory was allocated." }));
    return;
  }
  startFlame();
  startTables();
  startBrush();
  on((what) => keeping(() => {
    drawChoices();
    drawChart();
    drawBrush();
    drawShown();
    if (what !== "view") {
      drawFlame();
      drawLines();
    }
    if (what === "device") {
      drawLedger();
      drawPool();
    }
  }));
  chooseDevice(0);
}

main();
