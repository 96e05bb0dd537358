// The page's JSON, written by the structs of analyzer/src/views/page. Times are nanoseconds of the run.

import type { Answer, CategoryBytes, CauseHolders, Holder, Sections } from "./sections_data";

export interface Page {
  answer: Answer;
  /** The part of the run that the page covers, as text; null: the whole run. */
  part: string | null;
  /** The events after which this part begins and ends. */
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
  /** The event of the point in time to show first; null: the peak. */
  shown: number | null;
  trains: boolean;
  /** Idle intervals that are drawn narrow: from, to; in the order of time. */
  folds: [number, number][];
  lanes: Lane[];
  /** Categories of tensors. */
  categories: string[];
  /** Libraries that requested memory from the driver. */
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

/** Spans of one kind, in the order of their starts: from, to, label. */
export interface Lane {
  name: string;
  spans: [number, number, string][];
  /** The number of narrower ones that are omitted. */
  left_out: number;
}

export interface Stacks {
  names: string[];
  /** The kind of the frames of each name: see FrameKind. */
  kinds: number[];
  /** The line of source of each name: 1 more than its index in `texts`, 0: no line. */
  text_of: number[];
  texts: string[];
  /** For each frame in the tree: its caller (its index plus 1, 0: no caller) and its name. */
  tree: [number, number][];
  owners: Owner[];
  /** Parts of owners. */
  parts: Part[];
  /** For each stack: its newest frame in the tree, its owner, and its part of the owner. */
  stacks: [number, number, number][];
  modules: string[];
  /** For each stack: 1 more than the index of its module, 0: no module. */
  module_of: number[];
}

export interface Owner {
  line: string;
  path: string;
  function: string;
  source: string;
}

/** What distinguishes the parts of a line. */
export interface Part {
  /** The autograd node and cuBLAS, as tables show them after the line; empty if it is neither. */
  note: string;
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
  /** Whether the memory behind pools and graphs was recorded. */
  has_physical: boolean;
  moments: Moment[];
  ledger: LedgerRow[];
  pool: Pool | null;
}

/** Blocks with their lifetimes. */
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

/** Things other than blocks, with their lifetimes. */
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

/** `event`: any one that was chosen; `survivors`: blocks allocated in an interval and live at its end. */
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
  /** The memory of other stacks: their number, bytes, blocks. */
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
  /** The smaller segments: their number, bytes, and tensors in them. */
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
  /** The level's live bytes at that point. */
  live: number;
  /** null: the recorder did not look for them. */
  holders: CauseHolders | null;
}
