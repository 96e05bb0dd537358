// Memory that stays live from step to step, by line: growth, caches, and what is kept since the
// warm-up.

import { type Child, byId, fill, make } from "../lib/dom";
import { figure } from "../lib/figure";
import { bytes, count, many } from "../lib/format";
import { sumOf } from "../lib/item";
import { levelNow } from "./categories";
import { momentLink } from "./moment_link";
import type { Leak, LeakClass, Leaks } from "./sections_data";
import { type Column, drawSortable } from "./sortable";
import { data } from "./state";
import { atMoment, gpu, lineCell, ofRun, signed } from "./words";

const CLASSES: Record<LeakClass, string> = { "growing": "growing", "cache": "cache", "warm-up": "since the warm-up", "end-only": "younger" };

function isGrowing(of: Leak): boolean {
  return of.class === "growing";
}

/** Bytes per step of what grows. */
function slopeOf(of: Leak): number {
  return isGrowing(of) ? of.per_step : 0;
}

/** Whether anything grows. */
function verdict(of: Leaks): HTMLElement {
  const needed = of.warm_up + of.least + 1, growing = of.rows.filter(isGrowing);
  if (of.steps < needed) return make("p", { id: "verdict", text: `${many(of.steps, "step has", "steps have")} ended; growth is reported from ${count(needed)} steps on.` });
  if (!growing.length) return make("p", { id: "verdict", class: "exact", text: "No line grows." });
  const slope = sumOf(growing, (row) => row.per_step);
  return make("p", { id: "verdict", class: "failed", text: `${many(growing.length, "line grows", "lines grow")} by ${bytes(slope)} per step.` });
}

function holder(of: Leaks): Child {
  if (!of.holder) return null;
  const [line, blocks, held] = of.holder;
  return make("p", {}, ["Probably kept by the tensor of ", lineCell(line), ` (${many(blocks, "block", "blocks")}), the newest that remains of each step: `,
    "its graph keeps ", figure(held), " of the other lines. Use .item() or .detach() to keep only the value."]);
}

function steps({ steps: [oldest, newest] }: Leak): string {
  if (newest === null) return "…";
  return oldest === newest ? count(newest) : `${oldest === null ? "…" : count(oldest)}–${count(newest)}`;
}

const COLUMNS: Column<Leak>[] = [
  { name: "Line", kind: "path", value: (row) => row.line, cell: lineCell },
  { name: "Bytes", kind: "number", value: (row) => row.bytes, cell: (row) => figure(row.bytes) },
  { name: "Per step", kind: "number", value: slopeOf,
    cell: (row) => isGrowing(row) ? make("span", { text: signed(row.per_step), "data-bytes": row.per_step }) : "" },
  { name: "Kind", value: (row) => row.class ?? "", cell: (row) => row.class ? CLASSES[row.class] : "" },
  { name: "Blocks", kind: "number", value: (row) => row.blocks, cell: (row) => count(row.blocks) },
  { name: "Survived", kind: "number", value: (row) => row.survived, cell: (row) => figure(row.survived) },
  { name: "In steps", kind: "number", value: (row) => row.steps[1] ?? 0, cell: steps },
  { name: "Function", value: (row) => row.function, cell: (row) => row.function },
  { name: "Source", kind: "code", cell: (row) => row.source },
];

export function drawLeaks(): void {
  const of = data.sections.leaks;
  byId("leaks-section").hidden = !of;
  if (!of) return;
  if (!of.steps) {
    fill("leaks-said", make("p", { id: "verdict", text: "The capture has no steps, so growth is not known: see gpumem.step()." }));
    byId("leaks-all").hidden = true;
    return;
  }
  fill("leaks-said", verdict(of), holder(of),
    make("p", { class: "faint" }, ["At the end of step ", momentLink(`${count(of.steps)} (${atMoment(of)})`, of.seq, null), "."]));
  byId("leaks-all", HTMLDetailsElement).open = of.rows.some(isGrowing);
  const devices = data.devices.length > 1;
  const columns = devices ? [...COLUMNS, { name: "Device", value: (row: Leak) => row.device ?? -1, cell: (row: Leak) => gpu(row.device) }] : COLUMNS;
  const [more, size, blocks] = of.others;
  const row = (name: string, size: number, blocks: number) => [name, figure(size), "", "", count(blocks), "", "", "", "", ...devices ? [""] : []];
  const foot = more ? [row(many(more, "more line", "more lines"), size, blocks)] : [];
  foot.push(row("together", of.bytes, sumOf(of.rows, (each) => each.blocks) + blocks));
  drawSortable("leaks", `Live at the end of the last step, ${levelNow()}${ofRun()}; survived: for ${count(of.least)} steps or more`, columns, of.rows, foot);
}
