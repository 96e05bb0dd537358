// The page of a capture: who draws what anew when something changes.

import { offer } from "../lib/console";
import { byId, keepingFocus, make } from "../lib/dom";
import { bytes } from "../lib/format";
import { measureAgain, timeAtShare, width } from "./axis";
import { visibleBlocks } from "./blocks";
import { drawBrush, startBrush } from "./brush";
import { drawChart } from "./chart";
import { drawChoices, sayShown } from "./choices";
import { drawFlame, startFlame } from "./flame";
import { drawHead } from "./head";
import { startKeys } from "./keys";
import { drawLines, startLines } from "./lines";
import { startLinks } from "./link";
import { drawMap, startMap } from "./map";
import { drawMinimap, moveWindow } from "./minimap";
import { drawFailures, drawLedger, drawPool } from "./peak";
import { drawPinned } from "./pinned";
import { type Change, chooseDevice, chooseEvent, chooseMoment, chooseRange, chooseView, data, histories, history, level, on, pin, state, tell } from "./state";

function draw(what: Change): void {
  drawChart();
  if (what === "view") {
    moveWindow();
    return;
  }
  drawPinned();
  drawMap();
  if (what === "pinned") return;
  drawChoices();
  drawMinimap();
  drawBrush();
  sayShown();
  if (what === "blocks") return;
  drawFlame();
  drawLines();
  if (what === "device") {
    drawLedger();
    drawPool();
  }
}

function main(): void {
  drawHead();
  drawFailures();
  if (!data.devices.length) {
    for (const of of document.querySelectorAll<HTMLElement>("main > section")) of.hidden = of.id !== "failures-section" || !data.failure_count;
    document.querySelector("main")?.prepend(make("p", { text: "No GPU memory was allocated." }));
    return;
  }
  startFlame();
  startLines();
  startBrush();
  startMap();
  on((what) => { keepingFocus(() => { draw(what); }); });
  startKeys();
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

offer({ data, state, bytes, chooseEvent, chooseMoment, chooseRange, chooseView, histories, history, level, pin, timeAtShare, visibleBlocks });
main();
