// The JSON of the page of a job, as analyzer/src/render/ranks/page/data.rs writes it. Ranks are called by their places in
// `ranks`, columns of the heatmap by their numbers; times are nanoseconds from where the heatmap begins.

/** A part of the memory, by its place in `PARTS`. */
export type Part = 0 | 1 | 2;
type PerPart = [number, number, number];

export interface Data {
  named: string;
  answer: string[];
  differs: boolean;
  from_unix_ms: number;
  column_ns: number;
  columns: number;
  most: PerPart;
  /** Bytes of which each part's cells are multiples; 1: they are exact. */
  units: PerPart;
  ranks: Ranks;
  groups: Group[];
  outliers: Outlier[];
  /** All ranks that differ, by their numbers. */
  outlying: number[];
  endings: Endings;
  clocks: { host: string; ahead_ns: number; scatter_ns: number; steps: number }[];
  notes: string[];
}

export type Ended = "clean" | "running" | "killed" | "out_of_memory";

/** The ranks, column by column. */
export interface Ranks {
  hosts: string[];
  places: string[];
  rank: number[];
  /** Numbers of `hosts`. */
  host: (number | null)[];
  local_rank: (number | null)[];
  device: (number | null)[];
  /** Numbers of `places`. */
  place: (number | null)[];
  tensors: number[];
  reserved: number[];
  process: number[];
  nccl: number[];
  symmetric: number[];
  unexplained: (number | null)[];
  steps: number[];
  ended: Ended[];
  ended_ns: number[];
  /** What could not be allocated, by place. */
  wanted: Record<string, number>;
  /** Places of those whose capture lacks something. */
  partial: number[];
  pid: number[];
  file: string[];
}

export interface Group {
  place: string;
  /** Places in the columns. */
  ranks: number[];
}

export type Metric = "tensors" | "cache" | "nccl" | "outside" | "unexplained";

export interface Since {
  first_step: number;
  last_step: number;
}

export type Of = "line" | "category" | "module" | "pool" | "nccl" | "symmetric" | "outside";

export interface Difference {
  of: Of;
  name: string;
  bytes: number;
  median_bytes: number;
}

export interface Outlier {
  /** The rank's number. */
  rank: number;
  metric: Metric;
  word: string;
  bytes: number;
  off_bytes: number;
  peers: { median: number };
  peer_count: number;
  since: Since | null;
  differences: Difference[];
  /** The source text of each difference's line. */
  texts: string[];
}

export interface Endings {
  /** Ranks by their numbers. */
  out_of_memory: number[];
  killed: number[];
  running: number;
  clean: number;
  first_to_last_ns: number;
}
