// Possible savings of memory, with the lines as evidence.

import { type Child, byId, fill, make } from "../lib/dom";
import { figure } from "../lib/figure";
import { many } from "../lib/format";
import { momentLink } from "./moment_link";
import type { Evidence, Hint } from "./sections_data";
import { type Column, drawSortable } from "./sortable";
import { data } from "./state";
import { gpu, lineCell, ofRun } from "./words";

/** Hints about memory that is live at the device's peak. */
const AT_PEAK = ["optimizer_state", "not_in_place", "no_grad", "workspaces", "cached_unused", "other_processes", "imbalance"];

function evidence(of: Evidence): HTMLLIElement {
  return make("li", {}, [figure(of.bytes), ` in ${many(of.blocks, "block", "blocks")}, `, lineCell(of), of.function ? ` ${of.function}` : "",
    of.source ? make("code", { text: of.source }) : null]);
}

function seen(of: Hint): HTMLElement {
  const peak = AT_PEAK.includes(of.kind) ? data.answer.peaks.find((each) => each.device === of.device)?.seq : null;
  const own = data.devices.find((each) => each.device === of.device)?.peak?.[1] === peak;
  const link: Child = typeof peak === "number" && make("p", {}, [momentLink("Show the peak", peak, of.device, own ? "peak" : undefined)]);
  return make("div", {}, [of.what, of.lines.length > 0 && make("ul", { class: "evidence" }, of.lines.map(evidence)),
    make("p", { class: "advice", text: of.advice === "" ? "" : `→ ${of.advice}` }), link]);
}

export function drawHints(): void {
  const { hints } = data.sections;
  byId("hints-section").hidden = !data.devices.length;
  if (!hints.length) {
    fill("hints", make("p", { text: "No hints for this capture." }));
    return;
  }
  const columns: Column<Hint>[] = [
    { name: "Bytes", kind: "number", value: (of) => of.bytes, cell: (of) => of.bytes ? figure(of.bytes) : "" },
    ...data.devices.length > 1 ? [{ name: "Device", value: (of: Hint) => of.device, cell: (of: Hint) => gpu(of.device) }] : [],
    { name: "What was seen, and what can be done", kind: "seen", value: (of) => of.what, cell: seen },
  ];
  drawSortable("hints", `${many(hints.length, "hint", "hints")}, those about most bytes first${ofRun()}`, columns, hints);
}
