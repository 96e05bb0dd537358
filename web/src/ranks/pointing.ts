// Mouse and keyboard on the heatmap: the rank and column under the pointer, and the pinned rank.

import { byId, fill, make, say } from "../lib/dom";
import { count } from "../lib/format";
import { item } from "../lib/item";
import { dark, drawScale } from "./colours";
import { PARTS, cell, cellText, data, groupOf, host, order, peersOf, peersOver, place, placeOf, rankOf } from "./job";
import { MARKS, SIDE, canvas, drawAxis, drawMap, weight } from "./heatmap";
import { type Places, between, layOut, topOf, whole } from "./rows";
import { choose, state } from "./state";
import { clock, timeFrom } from "./words";

export function startMap(): void {
  canvas.addEventListener("pointermove", pointed);
  canvas.addEventListener("pointerleave", leave);
  canvas.addEventListener("click", (event) => {
    pointed(event);
    if (state.at) pin(state.at.index);
  });
  canvas.addEventListener("keydown", mapKey);
  fill("map", make("div", { id: "tall" }, [canvas])).addEventListener("scroll", drawMap);
  addEventListener("resize", () => {
    drawMap();
    drawAxis();
  });
  dark.addEventListener("change", () => {
    drawMap();
    drawScale();
  });
}

/** Updates the layout of the rows, and draws them. */
export function relayMap(): void {
  layOut();
  byId("tall").style.height = `${whole}px`;
  const what = state.mode ? "how far each rank is from its peers" : "memory of each rank";
  canvas.setAttribute("aria-label", `Heatmap: ${what} over time, ${PARTS[state.part][1]}. Arrow keys go from rank to rank and through time, Enter pins a rank.`);
  drawMap();
}

/** Of the ranks at a height: the one whose cell is the most extreme. */
function lookAt([from, to]: Places, column: number): void {
  let index = item(order, from), most = -1;
  for (const each of order.slice(from, to)) {
    const here = weight(each, column);
    const by = here === null ? -0.5 : Math.abs(here);
    if (by > most) [index, most] = [each, by];
  }
  state.at = { index, column, others: to - from - 1 };
  sayAt();
  drawMap();
}

function pointed(event: MouseEvent): void {
  const box = canvas.getBoundingClientRect();
  const y = event.clientY - box.top + byId("map").scrollTop;
  const share = (event.clientX - box.left - SIDE) / (box.width - SIDE - MARKS);
  const found = between(y, y + 1);
  if (!found || !data.columns) leave();
  else lookAt(found, Math.max(0, Math.min(data.columns - 1, Math.floor(share * data.columns))));
}

export function leave(): void {
  if (!state.at) return;
  state.at = null;
  sayAt();
  drawMap();
}

export function sayAt(): void {
  if (!state.at) {
    say("said", "Point at a cell, or use the arrow keys: rank, machine, time, bytes. A click or Enter pins the rank.");
    return;
  }
  const { index, column, others } = state.at, part = state.part;
  const from = column * data.column_ns, value = cell(part, index, column);
  const where = [host(index), place(index)].filter(Boolean).map((of) => `, ${of}`).join("");
  const median = item(peersOver(part, groupOf(index)).median, column);
  const peers = value && peersOf(index).length > 1 ? `; its peers' median ${cellText(part, median)}` : "";
  const more = others ? ` Of ${count(others + 1)} ranks in this line it has the ${state.mode ? "largest difference" : "most"}.` : "";
  say("said", `Rank ${rankOf(index)}${where}, at ${timeFrom(from)} (${clock(from)}): ${PARTS[part][1]} ${cellText(part, value)}${peers}.${more}`);
}

function pin(index: number): void {
  choose("pinned", state.pinned === index ? -1 : index);
}

function goTo(at: number, column: number): void {
  const row = Math.max(0, Math.min(order.length - 1, at));
  lookAt([row, row + 1], Math.max(0, Math.min(data.columns - 1, column)));
  const [top, tall] = topOf(item(order, row)), box = byId("map");
  if (top < box.scrollTop) box.scrollTop = top - 20;
  if (top + tall > box.scrollTop + box.clientHeight) box.scrollTop = top + tall + 20 - box.clientHeight;
}

function mapKey(event: KeyboardEvent): void {
  const start = state.pinned >= 0 ? state.pinned : item(order, 0);
  const { index, column } = state.at ?? { index: start, column: 0 };
  const at = placeOf(index), page = event.shiftKey ? 10 : 1;
  const moves: Record<string, [at: number, column: number]> = {
    ArrowDown: [at + page, column], ArrowUp: [at - page, column], ArrowRight: [at, column + page], ArrowLeft: [at, column - page],
    Home: [at, 0], End: [at, data.columns - 1], PageDown: [at + 16, column], PageUp: [at - 16, column],
  };
  const move = moves[event.key];
  if (move) goTo(...move);
  else if (event.key === "Enter" || event.key === " ") pin(index);
  else if (event.key === "Escape") choose("pinned", -1);
  else return;
  event.preventDefault();
}
