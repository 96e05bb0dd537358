// Details of the peak and of failures: the ledger, PyTorch's pool, failed allocations.

import { byId, fill, make, say } from "../lib/dom";
import { bytes, count, many, percent, time } from "../lib/format";
import { sumOf } from "../lib/item";
import { lineColours } from "./colours";
import type { LedgerRow, Pool, Segment } from "./data";
import { data, device } from "./state";
import { momentLink } from "./moment_link";
import { type Cell, type Head, table } from "./tables";
import { ofRun } from "./words";

export function drawLedger(): void {
  const now = device(), whole = sumOf(now.ledger, (row) => row.bytes);
  if (!now.ledger.length) {
    fill("ledger", make("p", { text: "No GPU memory was allocated." }));
    return;
  }
  const heads: Head[] = [{ name: "Part" }, { name: "Bytes", kind: "number" }, { name: "Share", kind: "number" }, { name: "As a bar" },
    { name: "Line that led to most of it" }];
  const share = (row: LedgerRow) => row.bytes <= 0 ? ""
    : make("span", { class: "share", style: { width: `${(row.bytes / Math.max(whole, 1)) * 120}px` } });
  const rows = now.ledger.flatMap((row): Cell[][] => [
    [row.name, bytes(row.bytes), percent(row.bytes, whole), share(row), row.line || row.detail],
    ...(row.categories ?? []).map((of): Cell[] =>
      [make("span", { class: "part", text: `of which ${of.category}` }), bytes(of.bytes), percent(of.bytes, whole), "", ""]),
  ]);
  // The ledger covers the whole run, and the device's peak the page's part of it.
  const peak = data.answer.peaks.find((of) => of.device === now.device);
  const { time: then, seq, when } = peak ?? { time: null, seq: null, when: "" };
  const at = then !== null && seq !== null ? `${now.title} at its peak, ${time(then)}, event ${count(seq)}${when}${ofRun()}` : now.title;
  fill("ledger", table(at, heads, rows, [["together", bytes(whole), percent(whole, whole), "", ""]]));
}

const POOL_HEADS: Head[] = [{ name: "Segment", kind: "code" }, { name: "Bytes", kind: "number" }, { name: "Tensors", kind: "number" },
  { name: "Blocks", kind: "number" }, { name: "Largest free", kind: "number" }, { name: "Map" }, { name: "Pinned by", kind: "path" }];
const POOL_CAPTION = "Each bar is as long as its segment; what is coloured is tensors, each line with a colour of its own as far as there are any, the rest is free.";

export function drawPool(): void {
  const pool = device().pool;
  byId("pool-section").hidden = !pool;
  if (!pool) return;
  say("pool-said", `${bytes(pool.reserved)} held from the driver, ${bytes(pool.live)} of them in tensors; the largest free block has ${bytes(pool.largest_free)}${ofRun()}.`);
  const [more, size, live] = pool.others;
  const foot = more ? [[many(more, "smaller segment", "smaller segments"), bytes(size), bytes(live), "", "", "", ""]] : [];
  fill("pool", table(POOL_CAPTION, POOL_HEADS, segmentRows(pool), foot));
}

function segmentRows(pool: Pool): Cell[][] {
  const most = Math.max(1, ...pool.segments.map((of) => of.bytes));
  const colour = lineColours(pool);
  const bar = (of: Segment) => {
    const pieces = of.lines.map((line) => make("span", { title: `${line.line}: ${bytes(line.bytes)}`,
      style: { width: `${(line.bytes / of.bytes) * 100}%`, background: colour(line.line) } }));
    return make("div", { class: "segment", role: "img", style: { width: `${(of.bytes / most) * 100}%` },
      "aria-label": `${percent(of.live, of.bytes)} in tensors` }, pieces);
  };
  return pool.segments.map((of) => [of.address + (of.expandable ? " (expandable)" : ""), bytes(of.bytes), bytes(of.live),
    count(of.blocks), bytes(of.largest_free), make("div", { style: { width: "200px" } }, [bar(of)]),
    of.lines.map((line) => `${line.line} ${bytes(line.bytes)}`).join(", ")]);
}

export function drawFailures(): void {
  byId("failures-section").hidden = !data.failure_count;
  const heads: Head[] = [{ name: "Time" }, { name: "Event", kind: "number" }, { name: "Device" }, { name: "Requested", kind: "number" }, { name: "By" }];
  const rows = data.failures.map((of) => [time(of.time), momentLink(count(of.seq), of.seq, of.device), of.device === null ? "none" : `GPU ${of.device}`,
    bytes(of.bytes), of.line + of.when]);
  const caption = `${many(data.failure_count, "allocation", "allocations")} failed because memory ran out${
    data.failure_count > rows.length ? "; the first ones and the newest are shown" : ""}${data.part === null ? "" : ", in this part of the run"}`;
  fill("failures", table(caption, heads, rows));
}
