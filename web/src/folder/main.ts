// The ranks of a folder: one row each, with a link to the capture's page.

import { offer } from "../lib/console";
import { type Child, byId, fill, keepingFocus, make, say } from "../lib/dom";
import { figure } from "../lib/figure";
import { bytes, count, many } from "../lib/format";
import { type Head, plainTable } from "../lib/table";
import type { Now, Rank, Ranks } from "./data";

/** Milliseconds between requests. */
const AGAIN = 500;
const HEADS: Head[] = [["rank", ""], ["local", "number"], ["host/pid", "optional"], ["state", ""], ["tensors", "number"], ["peak", "number"],
  ["reserved", "number"], ["process", "number"], ["NVML", "number"], ["card", "number"], ["step", "number"], ["fail", "number"], ["differs", ""]];

const state = { ranks: null as Ranks | null, drawn: "" };

function known(value: number | null): HTMLSpanElement {
  return value === null ? make("span", { class: "faint", text: "-" }) : figure(value);
}

function stateOf(now: Now): string {
  if (now.state === "reading" && now.read) return `reading ${Math.floor((now.read[0] / Math.max(now.read[1], 1)) * 100)} %`;
  return now.state === "stopped" ? `stopped: ${now.why ?? ""}` : now.state;
}

function differs(row: Rank): string {
  return row.differs.map((of) => `${of.metric}: ${bytes(Math.abs(of.off))} ${of.off < 0 ? "less" : "more"} than the median of ${of.peers} peers`).join("; ");
}

/** Sorts rows that come by rank; equal rows stay in that order. */
function ordered(rows: readonly Rank[], by: string): Rank[] {
  const off = (row: Rank) => (row.differs[0] ? Math.abs(row.differs[0].off) : -1);
  const peak = (row: Rank) => row.now?.tensor_peak ?? 0;
  const figureOf = { difference: off, peak }[by] ?? (() => 0);
  return [...rows].sort((a, b) => figureOf(b) - figureOf(a));
}

function cellsOf(row: Rank): Child[] {
  const text = (of: string | number | null) => make("span", { text: of === null ? "-" : String(of) });
  const now = row.now, mark = row.differs.length ? "! " : "";
  const name = now && now.rank !== null ? `rank ${now.rank}` : row.name;
  const link = make("a", { id: `capture-${row.number}`, href: `${row.number}/${location.search}`, title: row.name, text: mark + name });
  if (!now) return [link, ...HEADS.slice(1).map(() => text("-"))];
  const share = now.card ? `${Math.round((now.process / now.card) * 100)} %` : "-";
  return [link, text(now.local_rank), text(`${now.host || "-"}/${now.pid}`), text(stateOf(now)), known(now.tensors), known(now.tensor_peak),
    known(now.reserved), known(now.process), known(now.nvml), text(share), text(count(now.steps)), text(count(now.failures)), text(differs(row))];
}

function sayState(all: Ranks): void {
  const states = new Map<string, number>();
  for (const { now } of all.rows) if (now) states.set(now.state, (states.get(now.state) ?? 0) + 1);
  const parts = [many(all.rows.length, "capture", "captures"), ...[...states].map(([word, number]) => `${number} ${word}`)];
  const off = all.rows.filter((row) => row.differs.length).length;
  if (off) parts.push(`${off} differ`);
  if (all.beyond) parts.push(`${all.beyond} more are not followed`);
  if (all.error) parts.push(all.error);
  say("state", parts.join(" · "));
}

function drawRanks(): void {
  const all = state.ranks, sort = byId("sort", HTMLSelectElement).value;
  const drawn = JSON.stringify([all, sort]);
  if (!all || drawn === state.drawn) return;
  state.drawn = drawn;
  say("folder", all.folder);
  sayState(all);
  if (!all.rows.length) {
    fill("ranks", make("p", { text: "No capture yet: each one appears when its program starts." }));
    return;
  }
  keepingFocus(() => fill("ranks", plainTable(HEADS, ordered(all.rows, sort).map(cellsOf))));
}

async function look(): Promise<void> {
  try {
    const answer = await fetch(`ranks${location.search}`);
    if (!answer.ok) throw new Error(await answer.text());
    state.ranks = (await answer.json()) as Ranks;
    say("connection", "");
    drawRanks();
  } catch {
    say("connection", "No connection: gpumem-analyze or the tunnel to it has ended. The figures are the last ones received.");
  }
  setTimeout(() => { void look(); }, AGAIN);
}

offer({ state });
byId("sort").addEventListener("change", drawRanks);
void look();
