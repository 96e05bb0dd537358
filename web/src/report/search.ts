// The page's search: blocks in the chart and in the map, and frames of the flamegraph.

import { byId, fill, make, say, valueOf } from "../lib/dom";
import { bytes, count, many } from "../lib/format";
import { item } from "../lib/item";
import { type Matches, matchBeside, matchesAt, searchFor, searchedFor } from "./find";
import { searchFrames } from "./flame";
import { jump } from "./jumps";
import { chooseEvent, history, levelWord, moment, state, tell } from "./state";

function levelSaid({ of, count: found, bytes: size, live, liveBytes }: Matches): string {
  const among = of.whole ? `of ${many(of.count, "block", "blocks")}` : `of the ${many(of.count, "block", "blocks")} in this page (of ${count(of.all)})`;
  const exact = (value: number) => `${bytes(value)} (${many(value, "byte", "bytes")})`;
  return found ? `${levelWord(of)}: ${count(found)} ${among} found, together ${exact(size)}; live now: ${count(live)}, ${exact(liveBytes)}.`
    : `${levelWord(of)}: none ${among} found.`;
}

/** Shows how many blocks match, with their bytes. */
export function sayFound(): void {
  const then = moment();
  say("found", searchedFor() && then ? matchesAt(then.seq).map(levelSaid).join(" ") : "");
}

/** Moves to the next or previous match of the level in the chart: it is pinned, at its allocation. */
function stepMatches(by: 1 | -1): void {
  const of = history(), next = of && matchBeside(of, state.pinned, by);
  if (!of || next === undefined) return;
  jump(() => {
    state.pinned = next;
    chooseEvent(item(of.ticks.seqs, item(of.made, next)));
  });
}

export function startSearch(): void {
  const input = make("input", { type: "search", id: "find", placeholder: "line, function, module, 0x…", on: {
    input: (event) => {
      searchFor(valueOf(event));
      searchFrames(valueOf(event));
      tell("found");
    },
    keydown: (event) => {
      if (event.key !== "Enter") return;
      stepMatches(event.shiftKey ? -1 : 1);
      event.preventDefault();
    },
  } });
  fill("search-bar", make("label", {}, ["Search", input]),
    make("button", { type: "button", id: "match-before", text: "Match before", on: { click: () => { stepMatches(-1); } } }),
    make("button", { type: "button", id: "match-after", text: "Match after", on: { click: () => { stepMatches(1); } } }));
}

/** Focuses the page's search; the next one on the page if one has the focus already. */
export function focusSearch(): void {
  const all = ["find", "flame-search", "filter"].map((id) => byId(id, HTMLInputElement));
  const at = all.findIndex((of) => of === document.activeElement);
  item(all, (at + 1) % all.length).focus();
}
