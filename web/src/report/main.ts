// The page of a capture: who draws what anew when something changes.

import { offer } from "../lib/console";
import { keepingFocus, make } from "../lib/dom";
import { bytes } from "../lib/format";
import { drawBrush, startBrush } from "./brush";
import { drawChart } from "./chart";
import { drawChoices, sayShown } from "./choices";
import { drawFlame, startFlame } from "./flame";
import { drawHead } from "./head";
import { drawLines, startLines } from "./lines";
import { drawFailures, drawLedger, drawPool } from "./peak";
import { type Change, chooseDevice, chooseMoment, chooseRange, data, on, state } from "./state";

function draw(what: Change): void {
  drawChoices();
  drawChart();
  drawBrush();
  sayShown();
  if (what !== "view") {
    drawFlame();
    drawLines();
  }
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
  on((what) => { keepingFocus(() => { draw(what); }); });
  chooseDevice(0);
}

offer({ data, state, bytes, chooseMoment, chooseRange });
main();
