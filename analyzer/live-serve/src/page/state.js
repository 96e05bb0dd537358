// What is chosen, what came last, and the stream that brings it.

const choice = { by: "line", level: document.body.dataset.level, moment: "now", device: document.body.dataset.device, sort: "bytes", filter: "" };
const newest = { now: null, course: null, table: null };
const shown = { ...newest };
const view = { paused: false, source: null, draw: {} };

// The server's URL for what is chosen. The token is that of the page's own address.
function eventsUrl() {
  const query = new URLSearchParams({ token: new URLSearchParams(location.search).get("token") || "" });
  for (const [name, value] of Object.entries(choice)) query.set(name, value);
  return "events?" + query;
}

function show(kind) {
  // In the past only the course goes on.
  if (view.paused || !newest[kind] || (view.past && kind !== "course")) return;
  shown[kind] = newest[kind];
  view.draw[kind]();
}

function said(text) {
  const place = document.getElementById("connection");
  if (place.textContent !== text) place.textContent = text;
}

// The browser connects again by itself after a break.
function connect() {
  if (view.source) view.source.close();
  const source = view.source = new EventSource(eventsUrl());
  for (const kind of ["now", "course", "table"]) {
    source.addEventListener(kind, (event) => {
      newest[kind] = JSON.parse(event.data);
      said("");
      show(kind);
      if (kind === "now") drawMoment();
    });
  }
  source.addEventListener("error", () => {
    if (view.source !== source) return;
    said(source.readyState === EventSource.CLOSED
      ? "The server refused: 16 readers look already, or another server has the port now. Open the URL that it printed."
      : "No connection: gpumem-analyze has ended, or the tunnel to it. The figures are the last that came.");
  });
}

function choose(name, value) {
  choice[name] = value;
  view.paused = false;
  view.draw.choices();
  connect();
  if (view.past) goTo(view.past.at, view.past.name);
}

function pause() {
  view.paused = !view.paused;
  view.draw.choices();
  for (const kind of Object.keys(newest)) show(kind);
}
