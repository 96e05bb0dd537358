// The blocks that a search finds: by address, or by a text in their stack, line, module, category or library.

import { item } from "../lib/item";
import { HANDLE, type History, isLive, lastUpTo } from "./history";
import { data, histories } from "./state";

/** Blocks of a level that match: 1 for a match. */
interface Found {
  readonly is: Uint8Array;
  readonly count: number;
}

let wanted = "";
let found = new WeakMap<History, Found>();

/** The search text; empty: no search. */
export function searchedFor(): string {
  return wanted;
}

export function searchFor(text: string): void {
  wanted = text.trim().toLowerCase();
  found = new WeakMap();
}

/** Whether a text contains the search text. */
export function has(text: string | null): boolean {
  return text?.toLowerCase().includes(wanted) ?? false;
}

/** For each stack, whether a frame, its line, its phase or its module contains the text. */
function stacksFound(): boolean[] {
  const { names, text_of, texts, tree, owners, parts, stacks, modules, module_of } = data.stacks;
  const inText = texts.map(has), inName = names.map((name, place) => has(name) || inText[item(text_of, place) - 1] === true);
  const inTree: boolean[] = [];
  // A frame comes after its caller.
  for (const [above, name] of tree) inTree.push(inName[name] === true || inTree[above - 1] === true);
  const inOwner = owners.map((of) => has(`${of.line} ${of.function}`) || has(of.path) || has(of.source)), inModule = modules.map(has);
  const inPart = parts.map((of) => has(of.note) || has(of.phase));
  return stacks.map(([frame, owner, part], place) => inTree[frame] === true || inOwner[owner] === true || inPart[part] === true || inModule[item(module_of, place) - 1] === true);
}

function byText(of: History): (block: number) => boolean {
  const stacks = stacksFound(), categories = data.categories.map(has), libraries = data.libraries.map(has);
  return (block) => stacks[item(of.stacks, block)] === true || categories[item(of.categories, block)] === true
    || (of.level !== "tensor" && libraries[item(of.libraries, block)] === true);
}

/** The blocks that contain an address. A handle's number is not an address: it must be equal. */
function byAddress(of: History, address: number): (block: number) => boolean {
  return (block) => {
    const from = item(of.addresses, block);
    return from === address || (from < address && address < from + item(of.bytes, block) && !(item(of.kinds, block) & HANDLE));
  };
}

function foundIn(of: History): Found {
  let all = found.get(of);
  if (all) return all;
  const is = new Uint8Array(of.count), takes = /^0x[0-9a-f]+$/.test(wanted) ? byAddress(of, Number(wanted)) : byText(of);
  let count = 0;
  for (let block = 0; block < of.count; block++) if (takes(block)) count += is[block] = 1;
  found.set(of, all = { is, count });
  return all;
}

/** The blocks of a level that match; null without a search. */
export function foundBlocks(of: History): Uint8Array | null {
  return wanted ? foundIn(of).is : null;
}

export function isFound(of: History, block: number): boolean {
  return wanted !== "" && foundIn(of).is[block] === 1;
}

/**
 * The matches of a level: the number of blocks in the page, the number of matches, and the matches that are live
 * just after an event.
 */
export interface Matches {
  of: History;
  count: number;
  /** Bytes of all matches, at any time of their allocation. */
  bytes: number;
  live: number;
  liveBytes: number;
}

export function matchesAt(seq: number): Matches[] {
  if (!wanted) return [];
  return histories().map((of) => {
    const { is, count } = foundIn(of), tick = lastUpTo(of.ticks.seqs, seq), all: Matches = { of, count, bytes: 0, live: 0, liveBytes: 0 };
    for (let block = 0; block < of.count && count; block++) {
      if (!is[block]) continue;
      all.bytes += item(of.bytes, block);
      if (tick < 0 || !isLive(of, block, tick)) continue;
      all.live++;
      all.liveBytes += item(of.bytes, block);
    }
    return all;
  });
}

/** The match before or after a block of the level, in the order of allocations; wraps around at the ends. */
export function matchBeside(of: History, block: number | null, by: 1 | -1): number | undefined {
  const is = foundBlocks(of);
  let at = block ?? (by > 0 ? -1 : 0);
  for (let tried = 0; is && tried < of.count; tried++) {
    at = (at + by + of.count) % of.count;
    if (is[at]) return at;
  }
  return undefined;
}
