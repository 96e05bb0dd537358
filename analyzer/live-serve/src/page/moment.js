// Moments of the past, the account, the stacks of a row, and causes of failures.

// Names this page among those that wait.
const CLIENT = [...crypto.getRandomValues(new Uint8Array(8))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
const AGAIN = 200;

function place(text) {
  document.getElementById("moment-state").textContent = text;
}

// Asks until the answer is there. A newer question ends an older one: the answer is null then, or where there is none.
async function ask(at, want, choices, said) {
  const turn = view.turn = (view.turn || 0) + 1;
  const query = new URLSearchParams({ token: new URLSearchParams(location.search).get("token") || "", client: CLIENT, at, want });
  for (const [name, value] of Object.entries(choices)) query.set(name, value);
  for (;;) {
    let told;
    try {
      const answer = await fetch("moment?" + query);
      told = answer.ok ? await answer.json() : { state: "refused", why: (await answer.text()).trim() };
    } catch {
      told = { state: "refused", why: "no connection" };
    }
    if (turn !== view.turn) return null;
    if (told.state === "done") {
      said("");
      return told;
    }
    if (told.state === "refused") {
      said(told.why);
      return null;
    }
    const read = told.read && told.read[1] ? ` ${Math.floor(told.read[0] / told.read[1] * 100)} %` : "";
    said(told.state === "waiting" ? `waits: ${many(told.before, "reader is", "readers are")} before` : "reading the capture" + read);
    await new Promise((done) => setTimeout(done, AGAIN));
  }
}

// Shows a moment in the place of now: `at` is event:N or time:N. What is shown stays where it is refused.
async function goTo(at, name) {
  const told = await ask(at, "frame", choice, place);
  if (!told) return;
  view.past = { at, name };
  shown.now = told.now;
  shown.table = told.table;
  for (const kind of ["now", "table", "course"]) if (shown[kind]) view.draw[kind]();
  drawMoment();
}

function goToPeak() {
  const level = shown.table && shown.table.level;
  const all = (newest.now ? newest.now.peaks : []).filter((of) => of.level === level && (!choice.device || String(of.device) === choice.device));
  const peak = all.reduce((most, of) => (most && most.bytes >= of.bytes ? most : of), null);
  if (peak) goTo("event:" + peak.seq, peak.device === 255 ? "the peak" : `the peak of GPU ${peak.device}`);
  else place("There was no memory of this level so far.");
}

function goToNow() {
  view.past = null;
  view.paused = false;
  view.turn = (view.turn || 0) + 1;
  place("");
  view.draw.choices();
  for (const kind of Object.keys(newest)) show(kind);
  drawMoment();
}

// Where the page stands in time.
function drawMoment() {
  const now = newest.now;
  const slider = document.getElementById("time");
  if (now) slider.max = now.time;
  if (document.activeElement !== slider) slider.value = view.past ? shown.now.time : slider.max;
  document.getElementById("back").disabled = !view.past;
  document.getElementById("devices-head").textContent = view.past ? "Devices then" : "Devices now";
  document.getElementById("shown").textContent = view.past
    ? `at ${view.past.name || time(shown.now.time)}, event ${count(shown.now.seq)}` : "now";
}

// Lines of text in the page's last section.
async function openText(at, want, choices) {
  const section = document.getElementById("text-section");
  const said = (text) => { document.getElementById("text-state").textContent = text; };
  section.hidden = false;
  document.getElementById("text-head").textContent = "Details";
  fill("text");
  document.getElementById("text-head").focus();
  const told = await ask(at, want, choices, said);
  if (!told || !told.page) return;
  document.getElementById("text-head").textContent = told.page.title;
  fill("text", ...told.page.lines.map(([kind, text]) => make("span", { class: "line-" + kind, text: text + "\n" })));
}

function momentShown(seq) {
  return view.past ? view.past.at : "event:" + seq;
}

function openAccount() {
  if (shown.now) openText(momentShown(shown.now.seq), "account", choice);
}

// The level is that of the table, which has the row.
function openRow(key) {
  openText(momentShown(shown.table.seq), "row:" + key, { ...choice, level: shown.table.level });
}

function openCause(seq) {
  openText("event:" + seq, "cause:" + seq, choice);
}

function closeText() {
  view.turn = (view.turn || 0) + 1;
  document.getElementById("text-section").hidden = true;
  document.getElementById("table-head").focus();
}

document.getElementById("time").addEventListener("change", (event) => {
  const nanos = Number(event.target.value);
  if (newest.now && nanos >= newest.now.time) goToNow();
  else goTo("time:" + nanos);
});
for (const [name, does] of [["peak", goToPeak], ["back", goToNow], ["account", openAccount], ["close-text", closeText]]) {
  document.getElementById(name).addEventListener("click", does);
}
addEventListener("keydown", (event) => {
  if (event.key === "Escape" && !document.getElementById("text-section").hidden) closeText();
});
if (document.body.dataset.folder) {
  const all = document.getElementById("all");
  all.hidden = false;
  all.firstChild.href = "../" + location.search;
}
