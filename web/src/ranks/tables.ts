// The tables: ranks that differ, peers, endings.

import { byId, fill, make } from "../lib/dom";
import { bytes, count, many } from "../lib/format";
import { item, last } from "../lib/item";
import type { Outlier } from "./data";
import { EXPLAIN, differences } from "./differences";
import { PARTS, ascending, data, ended, endedAt, host, middle, order, outlying, peaks, rankOf } from "./job";
import { topOf } from "./rows";
import { choose, state } from "./state";
import { durationText, signed, since, timeFrom } from "./words";

/** The number of groups that are open at first. */
const OPEN = 3;

export function drawOutliers(): void {
  byId("outliers-section").hidden = !data.outliers.length;
  const byRank = new Map<number, Outlier[]>();
  for (const of of data.outliers) byRank.set(of.rank, [...(byRank.get(of.rank) ?? []), of]);
  const parts: HTMLElement[] = [...byRank].map(([rank, told], at) =>
    make("details", { open: at < OPEN, "data-rank": rank }, [make("summary", { text: `Rank ${rank}: ${summary(told)}` }),
      make("button", { type: "button", text: "Show it in the heatmap", on: { click: () => { showRank(data.ranks.rank.indexOf(rank)); } } }),
      make("div", { class: "wide" }, [differences(told)])]));
  const more = outlying.size - byRank.size;
  if (more > 0) parts.push(make("p", { class: "faint", text: `${many(more, "more rank differs", "more ranks differ")}: marked in the heatmap and in the table of ranks; --format json has them.` }));
  fill("outliers", ...parts);
}

/** The differences of a rank, and the first explanation. */
function summary(told: readonly Outlier[]): string {
  const main = item(told, 0);
  const place = main.differences.find((part) => part.of !== "category" && part.of !== "module" &&
    EXPLAIN[main.metric].includes(part.of) && Math.sign(part.bytes - part.median_bytes) === Math.sign(main.off_bytes));
  return told.map((of) => `${signed(of.off_bytes)} ${of.word}${since(of.since)}`).join("; ") + (place ? `; ${place.name}` : "");
}

export function showRank(index: number): void {
  if (index < 0) return;
  choose("pinned", index);
  const [top] = topOf(index), box = byId("map");
  box.scrollTop = Math.max(0, top - box.clientHeight / 2);
  byId("map-head").scrollIntoView();
}

const MOST_GROUPS = 256;

export function drawGroups(): void {
  const part = state.part, all = peaks(part), greatest = Math.max(1, ...order.map((index) => item(all, index)));
  const heads = ["peers", "ranks", "least", "median", "most", ""].map((text, at) =>
    make("th", { scope: "col", class: at && at < 5 ? "number" : undefined, text }));
  const rows = data.groups.slice(0, MOST_GROUPS).map((group) => {
    const values = ascending(group.ranks.map((index) => item(all, index))), median = middle(values);
    const least = item(values, 0), most = last(values);
    const at = (value: number) => `${(value / greatest) * 100}%`;
    const strip = make("span", { class: "strip", role: "img", "aria-label": `from ${bytes(least)} to ${bytes(most)}` }, [
      make("span", { style: { left: at(least), width: at(most - least) } }), make("i", { style: { left: at(median) } })]);
    return make("tr", {}, [make("td", { text: group.place || "all ranks" }),
      ...[count(values.length), bytes(least), bytes(median), bytes(most)].map((text) => make("td", { class: "number", text })), make("td", {}, [strip])]);
  });
  const more = data.groups.length - MOST_GROUPS;
  fill("groups", make("table", {}, [make("caption", { text: `Each rank's most of ${PARTS[part][1]}, at its own moment.` }),
    make("thead", {}, [make("tr", {}, heads)]), make("tbody", {}, rows)]),
  more > 0 && make("p", { class: "faint", text: many(more, "more group", "more groups") }));
}

const MOST_DEAD = 50;

export function drawEndings(): void {
  const { out_of_memory, killed, running, clean } = data.endings;
  const counts: [number, string][] = [[out_of_memory.length, "ran out of memory"], [killed.length, "killed"], [running, "still running"],
    [clean, "in an orderly way"]];
  const said = counts.filter(([number]) => number).map(([number, what]) => `${many(number, "rank", "ranks")} ${what}`).join(", ");
  const places = new Map(data.ranks.rank.map((rank, index) => [rank, index]));
  const dead = [...out_of_memory, ...killed].flatMap((rank) => places.get(rank) ?? []).sort((a, b) => endedAt(a) - endedAt(b));
  const [first] = dead;
  const rows = dead.slice(0, MOST_DEAD).map((index, at) => {
    const wanted = data.ranks.wanted[index];
    return make("tr", {}, [
      make("td", { text: `Rank ${rankOf(index)}` }), make("td", { text: host(index) }), make("td", { text: ended(index) }),
      make("td", { class: "number", text: timeFrom(endedAt(index)) }),
      make("td", { class: "number", text: at && first !== undefined ? `+${durationText(endedAt(index) - endedAt(first))}` : "first" }),
      make("td", { class: "number", text: wanted === undefined ? "" : bytes(wanted) })]);
  });
  const heads = ["rank", "machine", "ended", "at", "after the first", "could not be allocated"].map((text, at) =>
    make("th", { scope: "col", class: at > 2 ? "number" : undefined, text }));
  fill("endings", make("p", { text: `${said}.` }),
    dead.length > 0 && make("table", {}, [make("thead", {}, [make("tr", {}, heads)]), make("tbody", {}, rows)]),
    dead.length > MOST_DEAD && make("p", { class: "faint", text: `${many(dead.length - MOST_DEAD, "more rank", "more ranks")} died later.` }));
}
