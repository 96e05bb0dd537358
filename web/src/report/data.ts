// The JSON of the page, as the structs of analyzer/src/views/page write it. Times are nanoseconds of the run.

import type { Answer, CategoryBytes, Holder, Sections } from "./sections_data";

export interface Page {
  answer: Answer;
  /** Which part of the run the page is of, in words; null: all of it. */
  part: string | null;
  /** The events after which such a part begins and ends. */
  events: [number | null, number | null];
  /** Tables of the whole run. */
  sections: Sections;
  file: string;
  ran: string;
  exact: boolean;
  account: string[];
  missing: string[];
  from: number;
  to: number;
  /** The event of the moment to show first; else the peak is. */
  shown: number | null;
  trains: boolean;
  /** Idle stretches that are drawn narrow: from, to; in the order of time. */
  folds: [number, number][];
  lanes: Lane[];
  /** What tensors are for. */
  categories: string[];
  /** Libraries that asked the driver for memory. */
  libraries: string[];
  /** PyTorch's allocator and its settings. */
  allocator: string | null;
  spans: PageSpans;
  /** Parts of PyTorch's pool: the stream's handle, the pool's id (zeros: the default one). */
  placements: [number, number, number][];
  stacks: Stacks;
  devices: Device[];
  failures: Failure[];
  failure_count: number;
  retries: number;
  cause: Cause | null;
}

/** Spans of one kind, in the order of their beginnings: from, to, label. */
export interface Lane {
  name: string;
  spans: [number, number, string][];
  /** How many narrower ones are left out. */
  left_out: number;
}

export interface Stacks {
  names: string[];
  /** Of each name, what such a frame is: see FrameKind. */
  kinds: number[];
  /** Of each name, its line of source: 1 more than its number in `texts`, 0: none. */
  text_of: number[];
  texts: string[];
  /** Of each frame in the tree: the one that called it (its number plus 1, 0: none) and its name. */
  tree: [number, number][];
  owners: Owner[];
  /** Of each stack: its newest frame in the tree, and its owner. */
  stacks: [number, number][];
  modules: string[];
  /** Of each stack: 1 more than the number of its module, 0: none. */
  module_of: number[];
}

export interface Owner {
  line: string;
  path: string;
  function: string;
  source: string;
  phase: string | null;
}

export interface Device {
  title: string;
  name: string;
  device: number | null;
  /** Time, event and bytes of all bands. */
  peak: [number, number, number] | null;
  when: string;
  chart: Chart;
  history: PageHistory[];
  /** Pinned host memory. */
  host: PageHistory | null;
  /** Whether it was recorded what stands behind pools and graphs. */
  has_physical: boolean;
  moments: Moment[];
  ledger: LedgerRow[];
  pool: Pool | null;
}

/** Blocks over their lives. */
export interface PageHistory {
  level: string;
  all: number;
  blocks: number;
  events: number;
  whole: boolean;
  stretches: [number, number][];
  /** Event, time, bytes of the level. */
  points: [number, number, number][];
  columns: string;
}

/** What is no block, over its life. */
export interface PageSpans {
  spans: number;
  events: number;
  whole: boolean;
  stretches: [number, number][];
  nodes_left_out: number;
  columns: string;
}

export type BandKind = "tensors" | "cached" | "library" | "other_libraries" | "unknown" | "graph" | "beyond" | "level";

export interface Band {
  kind: BandKind;
  category: string | null;
  name: string;
}

/** Time, then bytes: of each band one after the other, or of one thing. */
export type Point = [time: number, ...bytes: number[]];

export interface Chart {
  bands: Band[];
  points: Point[];
  host: Point[];
  nvml: Point[];
}

/** `event`: any one that was chosen; `survivors`: what was allocated in a stretch and was live at its end. */
export type MomentKind = "peak" | "end" | "most" | "failure" | "asked" | "event" | "survivors";

export interface Moment {
  kind: MomentKind;
  seq: number;
  time: number;
  levels: Level[];
}

export interface Level {
  level: string;
  bytes: number;
  /** Stack, bytes, blocks; largest first. */
  stacks: [number, number, number][];
  /** What other stacks held: how many, bytes, blocks. */
  others: [number, number, number];
}

export interface LedgerRow {
  name: string;
  bytes: number;
  line: string;
  detail: string;
  categories?: CategoryBytes[];
}

export interface Pool {
  reserved: number;
  live: number;
  largest_free: number;
  segments: Segment[];
  /** The smaller segments: how many, bytes, tensors in them. */
  others: [number, number, number];
}

export interface Segment {
  address: string;
  bytes: number;
  live: number;
  blocks: number;
  largest_free: number;
  expandable: boolean;
  lines: { line: string; bytes: number }[];
}

export interface Failure {
  seq: number;
  time: number;
  device: number | null;
  bytes: number;
  line: string;
  when: string;
}

export interface Cause {
  seq: number;
  what: string;
  advice: string;
  owners: Holder[];
  /** All that was live then of their level. */
  live: number;
}
