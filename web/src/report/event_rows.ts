// The table of events around the shown point in time. It follows that point; a row leads to its event.

import { byId, fill, make, say } from "../lib/dom";
import { count, many, time } from "../lib/format";
import { figure } from "../lib/figure";
import { named } from "./blocks";
import { type Event, type Only, type Sources, countEvents, eventsAround } from "./events";
import { foundBlocks, has, isFound, searchedFor } from "./find";
import { isWhole } from "./history";
import { jump } from "./jumps";
import { hex } from "./map_kinds";
import { allSpans, chooseEvent, data, device, histories, hostHistory, levelWord, moment, state } from "./state";

let shown: readonly Event[] = [];
/** Whether only events of blocks that match the search are listed. */
let isFiltered = false;

function only(): Only | null {
  const name = searchedFor();
  return isFiltered && name ? { name, blocks: foundBlocks, others: has } : null;
}

function caption(from: Sources, seq: number, which: Only | null): string {
  const found = which ? `${many(countEvents(from, which), "event", "events")} of ${count(countEvents(from, null))} in this page found. ` : "";
  return `${device().title}: ${found}${many(shown.length, "event", "events")} around event ${count(seq)}. Click a row, or use the arrow keys, to go to its event.`;
}

function failures(): Event[] {
  return data.failures.filter((of) => of.device === device().device)
    .map((of) => ({ seq: of.seq, time: of.time, what: "allocation failed", bytes: of.bytes, address: null, of: of.line }));
}

function lineOf({ of }: Event): string {
  return typeof of === "string" ? of : named(of.history, of.block);
}

function row(of: Event, index: number, now: number): HTMLTableRowElement {
  const isNow = of.seq === now, found = typeof of.of !== "string" && isFound(of.of.history, of.of.block);
  const cells: [kind: string, cell: Node | string][] = [["number", count(of.seq)], ["number", time(of.time, data.to - data.from)], ["", of.what],
    ["number", figure(of.bytes)], ["number", of.address === null ? "" : hex(of.address)], ["", lineOf(of)]];
  return make("tr", { "data-event": index, "aria-current": isNow ? "true" : undefined, class: `${isNow ? "now" : ""}${found ? " found" : ""}`.trim() || undefined },
    cells.map(([kind, cell]) => make("td", { class: kind || undefined }, [cell])));
}

const HEADS = [["Event", "number"], ["Time", "number"], ["What", ""], ["Bytes", "number"], ["Address", "number"], ["Line", ""]] as const;

export function drawEvents(): void {
  const then = moment(), spans = allSpans(), all = histories(), host = hostHistory();
  byId("events-section").hidden = !then || !spans;
  if (!then || !spans) return;
  const every = host ? [...all, host] : all;
  const from: Sources = { histories: every, spans, device: device().device, failures: failures() }, which = only();
  shown = eventsAround(then.seq, from, which);
  byId("events-only", HTMLInputElement).disabled = !searchedFor();
  const left = every.filter((of) => !of.ticks.seqs.length || isWhole(of, then.seq) ? false : !of.whole).map(levelWord);
  say("events-said", left.length ? `Blocks are left out of this page at this moment (${left.join(", ")}): the table has the events of those that are in it.` : "");
  const table = make("table", {}, [
    make("caption", { text: caption(from, then.seq, which) }),
    make("thead", {}, [make("tr", {}, HEADS.map(([text, kind]) => make("th", { scope: "col", class: kind || undefined, text })))]),
    make("tbody", {}, shown.map((of, index) => row(of, index, then.seq)))]);
  fill("events", table);
  requestAnimationFrame(showNow);
}

/** Scrolls the table, and not the page, to the point in time. */
function showNow(): void {
  const box = byId("events"), now = [...box.querySelectorAll<HTMLElement>("tr.now")].at(-1);
  const after = shown.findIndex((of) => of.seq > (moment()?.seq ?? 0)), rows = box.querySelectorAll<HTMLElement>("tbody tr");
  const to = now ?? rows[(after < 0 ? rows.length : after) - 1];
  box.scrollTop = to ? to.offsetTop - box.clientHeight / 2 : 0;
}

/** Shows an event: its block is pinned if the chart's level has it. */
function goTo(of: Event | undefined): void {
  if (!of) return;
  const now = moment()?.levels.findIndex((level) => typeof of.of !== "string" && level.level === of.of.history.level) ?? -1;
  if (typeof of.of !== "string" && now === state.level && state.picture === "blocks") state.pinned = of.of.block;
  chooseEvent(of.seq);
}

/** The nearest row of another event. */
function beside(by: 1 | -1): Event | undefined {
  const seq = moment()?.seq ?? 0;
  return by > 0 ? shown.find((of) => of.seq > seq) : shown.filter((of) => of.seq < seq).at(-1);
}

export function startEvents(): void {
  const box = byId("events"), filter = make("input", { type: "checkbox", id: "events-only", disabled: true, on: {
    change: () => {
      isFiltered = filter.checked;
      drawEvents();
    } } });
  fill("events-bar", make("label", {}, [filter, "Only events of what the page's search finds, of all in this page"]));
  box.addEventListener("click", (event) => {
    const row = event.target instanceof Element ? event.target.closest<HTMLElement>("[data-event]") : null;
    if (row) jump(() => { goTo(shown[Number(row.dataset["event"])]); });
  });
  box.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") goTo(beside(event.key === "ArrowDown" ? 1 : -1));
    else return;
    event.preventDefault();
  });
}
