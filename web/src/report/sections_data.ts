// The page's JSON of the first section, and of the tables of the whole run
// (analyzer/src/views/page/{answer,sections,modules,rows}.rs).

export interface CategoryBytes {
  category: string;
  bytes: number;
}

/** A line with its memory. */
export interface Holder {
  line: string;
  function: string;
  bytes: number;
  blocks: number;
  categories?: CategoryBytes[];
}

/** The Python objects that kept the tensors. */
export interface CauseHolders {
  /** The name, the place, bytes and blocks. */
  rows: [string, string, number, number][];
  /** Bytes of all tensors. */
  live: number;
  cut: string | null;
}

/** A device at its peak in the whole run. */
export interface PeakAnswer {
  device: number;
  seq: number | null;
  time: number | null;
  when: string;
  bytes: number;
  total: number | null;
  level: string;
  live: number;
  owners: Holder[];
  /** Who kept the tensors soon after it, and the event; null: the recorder did not look. */
  holders: [number, CauseHolders] | null;
}

export interface Answer {
  /** The failure to show first; null: no failure. */
  failed: string | null;
  others: number;
  peaks: PeakAnswer[];
}

export interface CategoryRow extends CategoryBytes {
  blocks: number;
}

/** A module with the memory of its parts. */
export interface Module {
  name: string;
  class?: string;
  bytes: number;
  blocks: number;
  /** Bytes of the module itself. */
  own: number;
  /** The number of omitted modules that it stands for. */
  more?: number;
  parts?: Module[];
}

/** A level at a point in time. */
export interface Held {
  seq: number;
  time: number;
  bytes: number;
  categories: CategoryRow[];
  modules: Module;
}

export interface Holders {
  device: number | null;
  peak: Held | null;
  end: Held | null;
}

export interface Line {
  line: string;
  path: string;
  function: string;
  source: string;
}

export interface Evidence extends Line {
  bytes: number;
  blocks: number;
}

export interface Hint {
  kind: string;
  device: number;
  bytes: number;
  what: string;
  advice: string;
  /** The one that holds the others comes first. */
  lines: Evidence[];
}

export type LeakClass = "growing" | "cache" | "warm-up" | "end-only";

export interface Leak extends Line {
  device: number | null;
  class: LeakClass | null;
  bytes: number;
  blocks: number;
  survived: number;
  steps: [number | null, number | null];
  per_step: number;
  per_step_range: [number, number];
}

export interface Leaks {
  seq: number;
  time: number;
  /** That ended; rounds that begin at `round`, if there is one. */
  steps: number;
  round: string | null;
  warm_up: number;
  least: number;
  bytes: number;
  rows: Leak[];
  /** Omitted lines: their number, bytes, blocks. */
  others: [number, number, number];
  /** The line that keeps the rest of the growth, its blocks, bytes of the others. */
  holder: [Line, number, number] | null;
}

export interface Sections {
  level: string;
  estimated: boolean;
  devices: Holders[];
  hints: Hint[];
  leaks: Leaks | null;
}
