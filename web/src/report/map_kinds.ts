// Kinds of driver blocks, with their labels and colours.

import { bytes, count, many, time } from "../lib/format";
import { item } from "../lib/item";
import { named } from "./blocks";
import { ARRAY, BROUGHT, CUDA_POOL, GRAPH, HANDLE, type History, MANAGED } from "./history";
import { data, pin, state } from "./state";

export interface BlockKind {
  name: string;
  colour: string;
}

const PLAIN: BlockKind = { name: "device memory (cudaMalloc)", colour: "--hue-0" };
/** The first entry whose bit a block has applies. */
const KINDS: readonly [bit: number, kind: BlockKind][] = [
  [MANAGED, { name: "managed memory (on the card or the host: not recorded)", colour: "--hue-6" }],
  [HANDLE, { name: "VMM handle (cuMemCreate)", colour: "--hue-3" }],
  [GRAPH, { name: "a CUDA graph's node", colour: "--hue-2" }],
  [CUDA_POOL, { name: "from a pool of CUDA's (cudaMallocAsync)", colour: "--hue-8" }],
  [ARRAY, { name: "array", colour: "--hue-4" }],
  [BROUGHT, { name: "host memory that the program registered", colour: "--hue-7" }],
];
const HOST: BlockKind = { name: "pinned host memory", colour: "--host" };

export function kindOf(of: History, block: number): BlockKind {
  const bits = item(of.kinds, block), found = KINDS.find(([bit]) => bits & bit);
  if (of.level === "host" && !(bits & BROUGHT)) return HOST;
  return found ? found[1] : PLAIN;
}

/** The library that requested a driver block. */
export function libraryOf(of: History, block: number): string {
  const library = item(of.libraries, block);
  return library < 0 ? "unknown caller" : item(data.libraries, library);
}

/** A description of a driver block. */
export function blockWords(of: History, block: number): string {
  const { seqs, times } = of.ticks, made = item(of.made, block), handle = item(of.kinds, block) & HANDLE;
  return `${bytes(item(of.bytes, block))} (${many(item(of.bytes, block), "byte", "bytes")}), ${kindOf(of, block).name}, ` +
    `${handle ? "handle" : "at"} ${hex(item(of.addresses, block))}, requested by ${libraryOf(of, block)}, ${named(of, block)}, ` +
    `since ${time(item(times, made), 0)}, event ${count(item(seqs, made))}`;
}

export function hex(address: number): string {
  return `0x${address.toString(16)}`;
}

/** Pins a block of a level, which the chart then shows. */
export function pinBlock(of: History, block: number, levels: readonly string[]): () => void {
  return () => {
    const place = levels.indexOf(of.level);
    if (place < 0) return;
    state.level = place;
    state.picture = "blocks";
    pin(block);
  };
}

/** Whether a block is the pinned one of the chart's level. */
export function isPinned(of: History, block: number, levels: readonly string[]): boolean {
  return state.pinned === block && levels[state.level] === of.level;
}
