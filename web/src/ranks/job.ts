// The job of the page: its figures, and values derived from them.

import { bytes } from "../lib/format";
import { figureAt, item } from "../lib/item";
import type { Data, Ended, Part } from "./data";

/** Parts of the memory: the column of the ranks' peaks, and the label. */
export const PARTS = [["tensors", "tensors"], ["reserved", "PyTorch's allocator"], ["process", "the process"]] as const;

export let data!: Data;
let cells: Float64Array[] = [];
/** Ranks in the order of the picture: by group, then by number. */
export const order: number[] = [];
const groupNumbers: number[] = [], places: number[] = [];
export let outlying = new Set<number>();

export function setJob(of: Data, itsCells: Float64Array[]): void {
  [data, cells] = [of, itsCells];
  outlying = new Set(of.outlying);
  of.groups.forEach((group, number) => {
    for (const index of group.ranks) {
      groupNumbers[index] = number;
      places[index] = order.length;
      order.push(index);
    }
  });
}

/** The index of a rank's group. */
export function groupOf(index: number): number {
  return item(groupNumbers, index);
}

/** The index of a rank in `order`. */
export function placeOf(index: number): number {
  return item(places, index);
}

/** The ranks of a rank's group, including itself. */
export function peersOf(index: number): readonly number[] {
  return item(data.groups, groupOf(index)).ranks;
}

export function rankOf(index: number): number {
  return item(data.ranks.rank, index);
}

export function isOutlying(index: number): boolean {
  return outlying.has(rankOf(index));
}

/** Each rank's peak of a part. */
export function peaks(part: Part): readonly number[] {
  return data.ranks[PARTS[part][0]];
}

/**
 * The highest bytes of a cell; the real value is less than one unit lower. 0 units: the rank held nothing then, or
 * did not run.
 */
export function cell(part: Part, index: number, column: number): number {
  return figureAt(item(cells, part), index * data.columns + column);
}

export function cellBytes(part: Part, value: number): number {
  return (value - 1) * data.units[part];
}

export function cellText(part: Part, value: number): string {
  if (value === 0) return "does not run";
  const unit = data.units[part], most = cellBytes(part, value);
  return unit === 1 || most === 0 ? bytes(most) : `${bytes(most - unit)} to ${bytes(most)}`;
}

/** The lower of the middle ones, as in the rest of gpumem. The values are sorted. */
export function middle(sorted: readonly number[]): number {
  return item(sorted, (sorted.length - 1) >> 1);
}

export function ascending(values: readonly number[]): number[] {
  return [...values].sort((a, b) => a - b);
}

interface Over {
  median: Float64Array;
  least: Float64Array;
  most: Float64Array;
}

const overs = new Map<string, Over>();

/** For each column: the median, the lowest and the highest of a group's cells; 0 where none of it runs. */
export function peersOver(part: Part, group: number): Over {
  const key = `${part}:${group}`;
  let of = overs.get(key);
  if (of) return of;
  of = { median: new Float64Array(data.columns), least: new Float64Array(data.columns), most: new Float64Array(data.columns) };
  for (let column = 0; column < data.columns; column++) {
    const values = ascending(item(data.groups, group).ranks.map((index) => cell(part, index, column)).filter((value) => value > 0));
    if (!values.length) continue;
    of.median[column] = middle(values);
    [of.least[column], of.most[column]] = [item(values, 0), item(values, values.length - 1)];
  }
  overs.set(key, of);
  return of;
}

const farthest = new Map<Part, number>();

/** The largest distance of a cell from the median of its peers, in bytes. */
export function mostOff(part: Part): number {
  let most = farthest.get(part);
  if (most !== undefined) return most;
  most = 0;
  for (const index of order) {
    const median = peersOver(part, groupOf(index)).median;
    for (let column = 0; column < data.columns; column++) {
      const value = cell(part, index, column);
      if (value > 0) most = Math.max(most, Math.abs(value - figureAt(median, column)));
    }
  }
  most *= data.units[part];
  farthest.set(part, most);
  return most;
}

function nameIn(names: readonly string[], number: number | null): string {
  return number === null ? "" : item(names, number);
}

export function host(index: number): string {
  return nameIn(data.ranks.hosts, item(data.ranks.host, index));
}

export function place(index: number): string {
  return nameIn(data.ranks.places, item(data.ranks.place, index));
}

const ENDED: Record<Ended, string> = { clean: "", running: "runs", killed: "killed", out_of_memory: "out of memory" };

/** How a rank ended, if it did not end cleanly. */
export function ended(index: number): string {
  return ENDED[item(data.ranks.ended, index)];
}

export function isDead(index: number): boolean {
  return ["killed", "out_of_memory"].includes(item(data.ranks.ended, index));
}

export function endedAt(index: number): number {
  return item(data.ranks.ended_ns, index);
}
