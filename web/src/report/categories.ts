// Bytes by category, at the peak and at the end of the run.

import { byId, make } from "../lib/dom";
import { figure } from "../lib/figure";
import { count, percent } from "../lib/format";
import { sumOf } from "../lib/item";
import { momentLink } from "./moment_link";
import type { CategoryRow, Held } from "./sections_data";
import { type Column, drawSortable } from "./sortable";
import { data, device } from "./state";
import type { Cell } from "./tables";
import { atMoment, ofRun } from "./words";

interface Row {
  category: string;
  peak: CategoryRow | undefined;
  end: CategoryRow | undefined;
}

/** The owners of the device that is shown. */
export function holdersNow(): { peak: Held | null; end: Held | null } {
  return data.sections.devices.find((of) => of.device === device().device) ?? { peak: null, end: null };
}

/** The level of tables of the whole run, for a caption. */
export function levelNow(): string {
  const { level, estimated } = data.sections;
  return `${level === "tensor" ? "tensors" : "driver level"}${estimated ? ", estimates: stacks are sampled" : ""}`;
}

/** Links to a table's points in time. */
export function moments(peak: Held, end: Held | null): HTMLElement {
  const of = device().device, own = device().peak?.[1] === peak.seq ? "peak" : undefined;
  return make("p", { class: "faint" }, ["The peak: ", momentLink(atMoment(peak), peak.seq, of, own),
    ...end ? [". The end: ", momentLink(atMoment(end), end.seq, of)] : [], "."]);
}

function columns(whole: Held, end: Held | null): Column<Row>[] {
  const bytes = (of: CategoryRow | undefined): Cell => figure(of?.bytes ?? 0);
  const blocks = (of: CategoryRow | undefined): Cell => count(of?.blocks ?? 0);
  const at = (name: string, held: Held, of: (row: Row) => CategoryRow | undefined): Column<Row>[] => [
    { name: `Bytes at the ${name}`, kind: "number", value: (row) => of(row)?.bytes ?? 0, cell: (row) => bytes(of(row)) },
    { name: "Share", kind: "number", cell: (row) => percent(of(row)?.bytes ?? 0, held.bytes) },
    { name: `Blocks at the ${name}`, kind: "number", value: (row) => of(row)?.blocks ?? 0, cell: (row) => blocks(of(row)) },
  ];
  const colour = (row: Row) => make("span", { class: "swatch", style: { background: `var(--${row.category.replace(" ", "-")}, var(--unknown))` } });
  return [
    { name: "Category", value: (row) => row.category, cell: (row) => make("span", {}, [colour(row), row.category]) },
    ...at("peak", whole, (row) => row.peak), ...end ? at("end", end, (row) => row.end) : [],
  ];
}

export function drawCategories(): void {
  const { peak, end } = holdersNow();
  byId("categories-section").hidden = !peak;
  if (!peak) return;
  const names = new Set([...peak.categories, ...end?.categories ?? []].map((of) => of.category));
  const find = (held: Held | null, category: string) => held?.categories.find((of) => of.category === category);
  const rows = [...names].map((category): Row => ({ category, peak: find(peak, category), end: find(end, category) }));
  const foot = (held: Held) => [figure(held.bytes), percent(held.bytes, held.bytes), count(sumOf(held.categories, (of) => of.blocks))];
  drawSortable("categories", `${device().title}, ${levelNow()}${ofRun()}`, columns(peak, end), rows,
    [["together", ...foot(peak), ...end ? foot(end) : []]], [moments(peak, end)]);
}
