// The page of a job's ranks: the head, the choices, and the parts that each change redraws.

import { offer } from "../lib/console";
import { byId, fill, make, options, say } from "../lib/dom";
import { bytes } from "../lib/format";
import { inflated } from "../lib/unpack";
import { drawRanks, startRanks } from "./all";
import { drawScale, ramp } from "./colours";
import type { Data, Part } from "./data";
import { acrossMap, canvas, drawAxis, drawMap } from "./heatmap";
import { PARTS, cellText, data, order, setJob } from "./job";
import { drawPinned } from "./pinned";
import { leave, relayMap, sayAt, startMap } from "./pointing";
import { HIGH, TALL, topOf } from "./rows";
import { type Change, choose, on, startState, state, tell } from "./state";
import { drawEndings, drawGroups, drawOutliers, showRank } from "./tables";
import { unpackCells } from "./unpack";

function drawHead(): void {
  say("named", `Ranks of ${data.named}`);
  fill("answer", ...data.answer.map((text, at) => make("p", { class: at ? undefined : data.differs ? "differs" : "alike", text })));
  byId("notes-section").hidden = !data.notes.length;
  fill("notes", ...data.notes.map((text) => make("li", { text })));
}

function findRank(input: HTMLInputElement): void {
  const index = input.value === "" ? -1 : data.ranks.rank.indexOf(Number(input.value));
  input.setCustomValidity(index < 0 && input.value !== "" ? "There is no capture of this rank." : "");
  input.reportValidity();
  showRank(index);
}

function startChoices(): void {
  const rank: HTMLInputElement = make("input", { type: "number", id: "rank", min: 0, on: { change: () => { findRank(rank); } } });
  fill("choices",
    options("part", "Memory of", PARTS.map(([, name]) => name), state.part, (part) => { choose("part", part as Part); }),
    options("mode", "Colours show", ["bytes", "the difference from peers"], state.mode, (mode) => { choose("mode", mode ? 1 : 0); }),
    order.length * TALL > HIGH && options("tall-rows", "Rows", ["all in view", "large"], state.tall, (tall) => { choose("tall", tall ? 1 : 0); }),
    make("label", {}, ["Rank", rank]));
}

function redraw(what: Change): void {
  for (const [id, of] of [["part", "part"], ["mode", "mode"], ["tall-rows", "tall"]] as const) {
    const select = document.getElementById(id);
    if (select instanceof HTMLSelectElement) select.value = String(state[of]);
  }
  if (what === "pinned") drawMap();
  else relayMap();
  if (what === "part" || what === "pinned") drawPinned();
  if (what === "part") drawGroups();
  if (what !== "pinned") drawScale();
  if (what === "part" || what === "pinned") drawRanks();
  sayAt();
}

async function unpack(): Promise<void> {
  const [first = "", second = ""] = byId("data").textContent.split("\n");
  const of = JSON.parse(new TextDecoder().decode(await inflated(first))) as Data;
  setJob(of, unpackCells(await inflated(second), PARTS.length, of.ranks.rank.length, of.columns));
}

async function main(): Promise<void> {
  try {
    await unpack();
  } catch (error) {
    fill("answer", make("p", { class: "failed", text: `This browser cannot unpack the page's figures (${String(error)}): Chrome 92, Firefox 113, Safari 16.4 and newer can.` }));
    return;
  }
  startState();
  drawHead();
  const all = document.querySelector("main");
  if (all) all.hidden = false;
  startChoices();
  startMap();
  startRanks();
  drawOutliers();
  drawEndings();
  sayAt();
  on(redraw);
  tell("part");
  drawAxis();
  offer({ data, state, bytes, canvas, acrossMap, cellText, choose, leave, ramp, topOf });
  document.documentElement.dataset["ready"] = "yes";
}

void main();
