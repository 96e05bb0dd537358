// The JSON of a job's page, written by analyzer/src/render/ranks/page/data.rs. Ranks are referred to by their indices
// in `ranks`, columns of the heatmap by their numbers; times are nanoseconds from the heatmap's start.

/** A part of the memory, by its index in `PARTS`. */
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
  /** The unit of each part's cells in bytes; 1: they are exact. */
  units: PerPart;
  ranks: Ranks;
  groups: Group[];
  outliers: Outlier[];
  /** The numbers of all ranks that differ. */
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
  /** Indices into `hosts`. */
  host: (number | null)[];
  local_rank: (number | null)[];
  device: (number | null)[];
  /** Indices into `places`. */
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
  /** The bytes that could not be allocated, by index. */
  wanted: Record<string, number>;
  /** Indices of ranks whose capture is incomplete. */
  partial: number[];
  pid: number[];
  file: string[];
}

export interface Group {
  place: string;
  /** Indices into the columns. */
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
  /** The numbers of these ranks. */
  out_of_memory: number[];
  killed: number[];
  running: number;
  clean: number;
  first_to_last_ns: number;
}
