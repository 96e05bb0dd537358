// The pinned rank: its figures, its memory over time compared with its peers', and its differences.

import { type Child, byId, draw, fill, make, say } from "../lib/dom";
import { bytes, count } from "../lib/format";
import { item } from "../lib/item";
import { byteStep, tickText, timeStep } from "../lib/ticks";
import { differences } from "./differences";
import { PARTS, ascending, cell, cellBytes, data, ended, endedAt, groupOf, host, isOutlying, middle, peaks, peersOf, peersOver, place, rankOf } from "./job";
import type { Part } from "./data";
import { state } from "./state";
import { clock, timeFrom } from "./words";

function fact(name: string, value: Child, note = "", kind?: string): HTMLDivElement {
  return make("div", { class: kind }, [make("span", { text: name }), value, note && make("span", { text: note })]);
}

export function drawPinned(): void {
  const index = state.pinned;
  byId("pinned-section").hidden = index < 0;
  if (index < 0) return;
  say("pinned-head", `Rank ${rankOf(index)}${isOutlying(index) ? " differs from its peers" : ""}`);
  const told = data.outliers.filter((of) => of.rank === rankOf(index));
  const table = told.length > 0 && make("div", { class: "wide" }, [differences(told)]);
  fill("pinned", make("div", { class: "facts" }, facts(index)), courseChart(index), table);
}

function facts(index: number): HTMLDivElement[] {
  const ranks = data.ranks, peers = peersOf(index);
  const all = PARTS.map(([, name], number) => {
    const figures = peaks(number as Part), median = middle(ascending(peers.map((of) => item(figures, of))));
    return fact(`most of ${name}`, bytes(item(figures, index)), peers.length > 1 ? `peers' median ${bytes(median)}` : "");
  });
  for (const [key, name] of [["nccl", "NCCL"], ["symmetric", "symmetric memory"]] as const) {
    if (ranks[key].some((of) => of > 0)) all.push(fact(name, bytes(item(ranks[key], index))));
  }
  const unexplained = item(ranks.unexplained, index), wanted = ranks.wanted[index];
  if (unexplained !== null) all.push(fact("unexplained by NVML's last reading", bytes(unexplained)));
  all.push(fact("ended", ended(index) || "in an orderly way", `${timeFrom(endedAt(index))}, ${clock(endedAt(index))}`));
  if (wanted !== undefined) all.push(fact("could not be allocated", bytes(wanted)));
  all.push(fact("steps", count(item(ranks.steps, index))));
  const device = item(ranks.device, index);
  const where = [host(index), device === null ? "" : `GPU ${device}`, place(index)].filter(Boolean);
  all.push(fact("where", where.join(", ") || "unknown", `process ${item(ranks.pid, index)}`));
  all.push(fact("capture", item(ranks.file, index), ranks.partial.includes(index) ? "not exact" : "", "long"));
  return all;
}

const TOP = 10, HIGH = 150, LEFT = 70, RIGHT = 12;

/** The memory of one rank over time, in front of that of its peers. */
function courseChart(index: number): HTMLElement | null {
  const part = state.part, over = peersOver(part, groupOf(index)), columns = data.columns, peerCount = peersOf(index).length;
  if (!columns) return null;
  const wide = Math.max(320, document.querySelector("main")?.clientWidth ?? 0);
  const most = Math.max(1, cellBytes(part, Math.max(...over.most)));
  const x = (column: number) => (LEFT + (column / columns) * (wide - LEFT - RIGHT)).toFixed(1);
  const y = (bytes: number) => (TOP + (1 - bytes / most) * HIGH).toFixed(1);
  const yOf = (value: number) => y(Math.max(value - 1, 0) * data.units[part]);
  const parts: SVGElement[] = [];
  for (let tick = 0, step = byteStep(most) * 2; tick <= most; tick += step) {
    parts.push(draw("path", { class: "grid", d: `M${LEFT} ${y(tick)}H${wide - RIGHT}` }),
      draw("text", { x: LEFT - 8, y: Number(y(tick)) + 4, "text-anchor": "end", text: bytes(tick) }));
  }
  if (peerCount > 1) {
    let range = "";
    over.most.forEach((value, column) => {
      if (value) range += `M${x(column)} ${yOf(value)}H${x(column + 1)}V${yOf(item(over.least, column))}H${x(column)}Z`;
    });
    parts.push(draw("path", { style: { fill: "var(--range)" }, d: range }));
    parts.push(draw("path", { fill: "none", class: "axis", "stroke-dasharray": "4 3", d: steps((column) => item(over.median, column), x, yOf) }));
  }
  parts.push(draw("path", { id: "course", fill: "none", style: { stroke: "var(--held)", "stroke-width": 2 },
    d: steps((column) => cell(part, index, column), x, yOf) }));
  const span = data.column_ns * columns, step = timeStep(span) * (wide < 600 ? 2 : 1);
  for (let tick = 0; tick <= span; tick += step) {
    const at = x(tick / data.column_ns);
    parts.push(draw("path", { class: "axis", d: `M${at} ${HIGH + TOP}v4` }));
    if (Number(at) < wide - 30) parts.push(draw("text", { x: at, y: HIGH + 27, "text-anchor": "middle", text: tickText(tick, step) }));
  }
  const name = PARTS[part][1], rank = rankOf(index);
  const entry = (colour: string, text: string) => make("li", {}, [make("span", { class: "swatch", style: { background: colour } }), text]);
  return make("div", {}, [
    draw("svg", { viewBox: `0 0 ${wide} ${HIGH + 32}`, role: "img", "aria-label": `Rank ${rank}: ${name} over time` }, parts),
    make("ul", { class: "legend" }, [
      entry("var(--held)", `rank ${rank}, ${name}`),
      peerCount > 1 && entry("var(--range)", `from the least to the most of ${count(peerCount)} peers; ┄ their median`),
    ]),
  ]);
}

/** A line of steps over all columns, with gaps where there is no value. */
function steps(of: (column: number) => number, x: (column: number) => string, y: (value: number) => string): string {
  let path = "", runs = false;
  for (let column = 0; column < data.columns; column++) {
    const value = of(column);
    if (value !== 0) path += `${runs ? `V${y(value)}` : `M${x(column)} ${y(value)}`}H${x(column + 1)}`;
    runs = value !== 0;
  }
  return path;
}
