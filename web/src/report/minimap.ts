// A small chart of the whole run, with the view as a window that can be moved and resized.

import { brushX } from "d3-brush";
import { select } from "d3-selection";

import { byId, draw, make } from "../lib/dom";
import { item } from "../lib/item";
import { LEFT, TimeAxis, plotWidth, width } from "./axis";
import { type History, lastUpTo } from "./history";
import { chooseView, chooseViewSoon, data, device, history, state } from "./state";

const HIGH = 44;

/** The highest bytes in each column of the whole run. */
function levelColumns(of: History, columns: number): number[] {
  const { times, totals } = of.ticks, out: number[] = [];
  let tick = -1;
  for (let x = 0; x < columns; x++) {
    const end = lastUpTo(times, timeOf((x + 1) / columns));
    let most = tick < 0 ? 0 : item(totals, tick);
    for (; tick < end; tick++) most = Math.max(most, item(totals, tick + 1));
    out.push(most);
  }
  return out;
}

function cardColumns(columns: number): number[] {
  const out = new Array<number>(columns).fill(0);
  const sums = device().chart.points.map(([time, ...sizes]): [number, number] => [time, sizes.reduce((a, b) => a + b, 0)]);
  let next = 0, now = 0;
  for (let x = 0; x < columns; x++) {
    let most = now;
    for (; (sums[next]?.[0] ?? Infinity) <= timeOf((x + 1) / columns); next++) {
      now = sums[next]?.[1] ?? 0;
      most = Math.max(most, now);
    }
    out[x] = most;
  }
  return out;
}

let whole: TimeAxis | null = null;

function run(): TimeAxis {
  return (whole ??= new TimeAxis([data.from, data.to]));
}

function timeOf(share: number): number {
  return run().time(share);
}

function shareOf(time: number): number {
  return run().share(time);
}

export function drawMinimap(): void {
  const wide = Math.round(plotWidth()), of = history();
  const columns = state.picture === "blocks" && of ? levelColumns(of, wide) : cardColumns(wide);
  const most = Math.max(1, ...columns);
  const path = columns.map((size, x) => `${x ? "H" : "M"}${x}${x ? "V" : " "}${(HIGH - (size / most) * (HIGH - 4)).toFixed(1)}`).join("");
  const area = draw("path", { class: "run", d: `${path}H${wide}V${HIGH}H0Z` });
  const failures = data.failures.filter((failure) => failure.device === device().device)
    .map((failure) => draw("path", { class: "failure", d: `M${(shareOf(failure.time) * wide).toFixed(1)} 7l-4 -7h8z`, style: { fill: "var(--bad)" } }));
  const group = draw("g", { class: "window" });
  const svg = draw("svg", { viewBox: `0 0 ${width()} ${HIGH}`, role: "img", "aria-label": `${data.part === null ? "The whole run" : "All of this part of the run"}; the window is what the chart shows` },
    [draw("g", { transform: `translate(${LEFT} 0)` }, [area, ...failures, group])]);
  byId("minimap").replaceChildren(make("div", { class: "plot" }, [svg]));
  const brush = brushX<unknown>().extent([[0, 0], [wide, HIGH]]).on("brush end", ({ type, sourceEvent, selection }: { type: string; sourceEvent: unknown; selection: [number, number] | null }) => {
    if (!sourceEvent) return;
    const choose = type === "end" ? chooseView : chooseViewSoon;
    if (selection) choose(Math.round(timeOf(selection[0] / wide)), Math.round(timeOf(selection[1] / wide)));
    else choose(data.from, data.to);
  });
  const on = select<SVGGElement, unknown>(group).call(brush);
  moveWindow = () => {
    const [from, to] = state.view;
    brush.move(on, shareOf(from) <= 0 && shareOf(to) >= 1 ? null : [shareOf(from) * wide, shareOf(to) * wide]);
  };
  moveWindow();
}

/** Moves the window to the view. */
export let moveWindow = (): void => undefined;
