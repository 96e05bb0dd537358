// The program's state, its devices, and its failures.

import { byId, fill, make, say } from "../lib/dom";
import { figure } from "../lib/figure";
import { bytes, count, many, time } from "../lib/format";
import { type Head, plainTable } from "../lib/table";
import type { Now } from "./data";
import { goTo } from "./past";
import { redraw, shown } from "./state";
import { openCause } from "./text";

function stateWord(now: Now): string {
  switch (now.state) {
    case "reading": return `reading ${bytes(now.read?.[0] ?? 0)} of ${bytes(now.read?.[1] ?? 0)}`;
    case "ended": return `ended at ${time(now.ended ?? 0)}`;
    case "killed": return `ended without its exit handlers, after ${time(now.ended ?? 0)}`;
    case "stopped": return `stopped: ${now.why ?? ""}`;
    case "running": return "running";
  }
}

export function drawNow(): void {
  const now = shown.now;
  if (!now) return;
  const command = now.command || `process ${now.pid}`;
  say("command", command);
  document.title = `GPU memory, live: ${command}`;
  const more = [`${time(now.time)}, event ${count(now.seq)}`];
  if (now.steps) more.push(many(now.steps, "step", "steps"));
  if (now.phase) more.push(now.phase);
  more.push(`pid ${now.pid}`);
  const isBad = now.state === "killed" || now.state === "stopped";
  fill("state", make("strong", { class: isBad ? "bad" : undefined, "data-state": now.state, text: stateWord(now) }), ` · ${more.join(" · ")}`);
  drawDevices(now);
  drawFailures(now);
}

const DEVICE_HEADS: Head[] = [["GPU"], ["process", "number"], ["of the card", "number"], ["tensors", "number"], ["at the peak", "number"],
  ["from CUDA", "number"], ["at the peak", "number"], ["PyTorch holds", "number"], ["NVML, this process", "number"]];

function drawDevices(now: Now): void {
  const known = (value: number | null) => (value === null ? make("span", { class: "faint", text: "not known" }) : figure(value));
  const rows = now.devices.map((on) => [make("span", { text: `GPU ${on.device}`, title: on.name || undefined }), figure(on.process),
    known(on.total), figure(on.tensor), figure(on.peak_tensor), figure(on.driver), figure(on.peak_driver), known(on.reserved), known(on.nvml)]);
  fill("devices", rows.length ? plainTable(DEVICE_HEADS, rows) : make("p", { text: "No GPU memory was allocated yet." }));
  redraw("choices");
}

const FAILURE_HEADS: Head[] = [["time"], ["event", "number"], ["requested", "number"], ["on"], ["outcome"], [""], [""]];

function drawFailures(now: Now): void {
  byId("failures-section").hidden = !now.failure_count;
  if (!now.failure_count) return;
  const text = (of: string) => make("span", { text: of });
  const button = (name: string, click: () => void) => make("button", { type: "button", text: name, on: { click } });
  const rows = now.failures.map((of) => [text(time(of.time)), text(count(of.seq)), figure(of.bytes), text(`GPU ${of.device}`),
    make("span", { class: of.is_exception ? "failed" : undefined,
      text: of.is_exception ? "exception in the program" : "handled by the framework's allocator" }),
    button("Go there", () => { void goTo(`event:${of.seq}`, "the failure"); }),
    button("Why", () => { openCause(of.seq); })]);
  const newest = now.failure_count > rows.length ? `, the newest ${rows.length} of them` : "";
  fill("failures", make("p", { text: `${many(now.failure_count, "allocation", "allocations")} failed because memory ran out${newest}` }),
    plainTable(FAILURE_HEADS, rows));
}
