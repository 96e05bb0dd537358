// The JSON of a folder's ranks, written by analyzer/live/src/serve/ranks.rs.

export interface Ranks {
  folder: string;
  error: string | null;
  /** Captures that are not followed. */
  beyond: number;
  rows: Rank[];
}

export interface Rank {
  number: number;
  name: string;
  /** null: nothing has been read yet. */
  now: Now | null;
  differs: { metric: string; off: number; peers: number }[];
}

export interface Now {
  rank: number | null;
  local_rank: number | null;
  host: string | null;
  pid: number;
  state: "reading" | "running" | "ended" | "killed" | "stopped";
  /** Bytes read, and bytes in all. */
  read: [number, number] | null;
  why: string | null;
  device: number | null;
  card: number | null;
  tensors: number;
  tensor_peak: number;
  reserved: number | null;
  process: number;
  nvml: number | null;
  steps: number;
  failures: number;
}
