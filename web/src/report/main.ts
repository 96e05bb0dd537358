// The page of a capture: which parts are redrawn when something changes.

import { offer } from "../lib/console";
import { byId, keepingFocus, make } from "../lib/dom";
import { bytes } from "../lib/format";
import { drawAnswer } from "./answer";
import { measureAgain, timeAtShare, width } from "./axis";
import { visibleBlocks } from "./blocks";
import { drawBrush, startBrush } from "./brush";
import { drawCategories } from "./categories";
import { drawChart } from "./chart";
import { drawChoices, sayShown } from "./choices";
import { drawContents } from "./contents";
import { drawEvents, startEvents } from "./event_rows";
import { drawFlame, startFlame } from "./flame";
import { drawHints } from "./hints";
import { startKeys } from "./keys";
import { drawLeaks } from "./leaks";
import { drawLines, startLines } from "./lines";
import { startLinks } from "./link";
import { mapGroups } from "./map_rows";
import { drawMaps, startMaps } from "./maps";
import { drawMinimap, moveWindow } from "./minimap";
import { drawFailures, drawLedger, drawPool } from "./peak";
import { drawModules } from "./modules";
import { drawPinned } from "./pinned";
import { startPrint } from "./print";
import { sayFound, startSearch } from "./search";
import { type Change, chooseDevice, chooseEvent, chooseMoment, chooseRange, chooseView, data, histories, history, level, on, pin, state, tell } from "./state";

function draw(what: Change): void {
  if (what === "frame") {
    drawFlame();
    return;
  }
  drawChart();
  if (what === "view") {
    moveWindow();
    return;
  }
  drawPinned();
  drawMaps();
  drawEvents();
  sayFound();
  if (what === "pinned" || what === "found") return;
  drawChoices();
  drawMinimap();
  drawBrush();
  sayShown();
  drawContents();
  if (what === "blocks") return;
  drawFlame();
  drawLines();
  if (what === "device") {
    drawLedger();
    drawPool();
    drawCategories();
    drawModules();
  }
}

function main(): void {
  drawAnswer();
  drawFailures();
  drawHints();
  drawLeaks();
  if (!data.devices.length) {
    for (const of of document.querySelectorAll<HTMLElement>("main > section")) of.hidden = of.id !== "failures-section" || !data.failure_count;
    document.querySelector("main")?.prepend(make("p", { text: "No GPU memory was allocated." }));
    return;
  }
  startFlame();
  startSearch();
  startLines();
  startBrush();
  startMaps();
  startEvents();
  on((what) => { keepingFocus(() => { draw(what); }); });
  startKeys();
  startPrint();
  startLinks();
  chooseDevice(0);
  let wide = width();
  new ResizeObserver(() => {
    measureAgain();
    if (wide === width()) return;
    wide = width();
    tell("level");
  }).observe(byId("chart"));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { tell("level"); });
}

offer({ data, state, bytes, chooseEvent, chooseMoment, chooseRange, chooseView, histories, history, level, mapGroups, pin, timeAtShare, visibleBlocks });
main();
