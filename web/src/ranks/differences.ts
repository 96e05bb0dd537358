// The differences of ranks from their peers: each figure with its parts.

import { make } from "../lib/dom";
import { bytes, many } from "../lib/format";
import { item } from "../lib/item";
import type { Difference, Metric, Of, Outlier } from "./data";
import { signed, since } from "./words";

/** The parts of a metric. */
export const EXPLAIN: Record<Metric, readonly Of[]> = {
  tensors: ["line", "category", "module"],
  cache: ["pool"],
  nccl: ["nccl", "symmetric"],
  outside: ["outside"],
  unexplained: [],
};

function row(figures: readonly string[], kind: string, what: HTMLTableCellElement): HTMLTableRowElement {
  return make("tr", {}, [...figures.map((text) => make("td", { class: kind, text })), what]);
}

export function differences(told: readonly Outlier[]): HTMLTableElement {
  const rows = told.flatMap((of) => [
    row([signed(of.off_bytes), bytes(of.bytes), bytes(of.peers.median)], "number strong",
      make("td", { class: "strong what", text: `${of.word}, of ${many(of.peer_count, "peer", "peers")}${since(of.since)}` })),
    ...of.differences.map((part, at) => ({ part, text: item(of.texts, at) })).filter(({ part }) => EXPLAIN[of.metric].includes(part.of))
      .map(({ part, text }) => row([signed(part.bytes - part.median_bytes), bytes(part.bytes), bytes(part.median_bytes)], "number",
        make("td", { class: "under" }, [nameOf(part), text && make("code", { text })]))),
  ]);
  const heads = ["more", "it has", "peers have", ""].map((text, at) => make("th", { scope: "col", class: at < 3 ? "number" : undefined, text }));
  return make("table", { class: "differences" }, [make("thead", {}, [make("tr", {}, heads)]), make("tbody", {}, rows)]);
}

function nameOf(part: Difference): string {
  if (part.of === "category" || part.of === "module") return `${part.of}: ${part.name}`;
  return part.of === "symmetric" ? `${part.name} (symmetric memory)` : part.name;
}
