// The owners of the memory.

import { type Child, fill, make } from "../lib/dom";
import { figure } from "../lib/figure";
import { count, many } from "../lib/format";
import { type Head, plainTable } from "../lib/table";
import type { Row, Table } from "./data";
import { choice, shown, view } from "./state";
import { openRow } from "./text";
import { BY, LEVELS, MOMENTS, ONE, THEN } from "./words";

/** The most characters of a name. */
const NAME = 60;

interface Column {
  head: Head;
  cell: (row: Row) => Child;
}

function columns(now: Table): Column[] {
  const most = Math.max(...now.rows.map((row) => row.bytes), 1);
  const all: Column[] = [{ head: [ONE[now.by], "name"], cell: nameCell }];
  if (now.by !== "category") {
    all.push({ head: [now.by === "module" ? "class" : "function", "optional"], cell: (row) => make("span", { text: row.of }) },
      { head: ["for", ""], cell: (row) => make("span", { text: row.more }) });
  }
  all.push({ head: ["bytes", "number"], cell: (row) => figure(row.bytes) },
    { head: ["share", "share-cell"], cell: (row) =>
      make("span", {}, [make("span", { class: "share", style: { width: `${(row.bytes / most) * 60}px` } }), ` ${row.share}`]) },
    { head: ["blocks", "number"], cell: (row) => make("span", { text: count(row.blocks) }) });
  if (new Set(now.rows.map((row) => row.device)).size > 1) {
    all.push({ head: ["device", "number"], cell: (row) => make("span", { text: row.device === null ? "none" : `GPU ${row.device}` }) });
  }
  return all;
}

function nameCell(row: Row): HTMLButtonElement {
  const text = row.name.length > NAME ? `…${row.name.slice(1 - NAME)}` : row.name;
  return make("button", { type: "button", class: "row", "data-key": row.key, text, title: row.name, on: { click: () => { openRow(row.key); } } });
}

export function drawTable(): void {
  const now = shown.table;
  if (!now) return;
  const only = now.device === null ? "" : `, GPU ${now.device}`;
  const when = (view.past ? THEN : MOMENTS)[now.moment];
  fill("sum", make("strong", {}, [`${BY[now.by]}: ${LEVELS[now.level]} ${when}${only}, `, figure(now.total)]),
    make("span", { class: "faint", "data-seq": now.seq, text: ` as of event ${count(now.seq)}` }));
  if (!now.rows.length) {
    fill("table", make("p", { text: choice.filter ? "No row contains this text." : "No live memory." }));
    return;
  }
  const all = columns(now);
  const table = plainTable(all.map((column) => column.head), now.rows.map((row) => all.map((column) => column.cell(row))));
  const left = now.found > now.rows.length ? `the first ${count(now.rows.length)} of ${many(now.found, "row", "rows")}; ` : "";
  table.prepend(make("caption", {}, [`${left}${choice.filter ? "rows found hold" : "together"} `, figure(now.found_bytes),
    ` in ${many(now.found_blocks, "block", "blocks")}`]));
  fill("table", table);
}
