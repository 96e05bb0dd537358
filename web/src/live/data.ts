// The JSON that analyzer/live-serve sends: events, and answers to questions about moments of the past.

/** now.rs: the program, its devices, its failures. */
export interface Now {
  state: "reading" | "running" | "ended" | "killed" | "stopped";
  /** Bytes read, and all. */
  read?: [number, number];
  /** When the program ended. */
  ended?: number;
  /** Why reading has stopped. */
  why?: string;
  seq: number;
  time: number;
  events: number;
  steps: number;
  phase: string | null;
  pid: number;
  command: string | null;
  devices: Device[];
  peaks: Peak[];
  failure_count: number;
  failures: Failure[];
}

export interface Device {
  device: number;
  name: string | null;
  total: number | null;
  process: number;
  tensor: number;
  driver: number;
  reserved: number | null;
  physical: number;
  peak_tensor: number;
  peak_driver: number;
  peak_time: number | null;
  nvml: number | null;
}

/** When a device held most of a level, so far. */
export interface Peak {
  device: number;
  level: LevelName;
  bytes: number;
  seq: number;
}

export interface Failure {
  seq: number;
  time: number;
  device: number;
  bytes: number;
  is_exception: boolean;
}

/** course.rs: the greatest memory of each stretch of time. */
export interface Course {
  device: number;
  start: number;
  width: number;
  /** Tensors, PyTorch's allocator, the process. */
  greatest: [number, number, number][];
}

export type By = "line" | "category" | "module";
export type LevelName = "tensor" | "driver" | "host" | "physical";
export type MomentName = "now" | "peak";

/** table.rs: who owns the memory. */
export interface Table {
  seq: number;
  by: By;
  moment: MomentName;
  level: LevelName;
  device: number | null;
  total: number;
  found: number;
  found_bytes: number;
  found_blocks: number;
  rows: Row[];
}

export interface Row {
  /** Names the row in a request. */
  key: string;
  device: number | null;
  bytes: number;
  blocks: number;
  /** Of all rows, in words: `31 %`. */
  share: string;
  name: string;
  of: string;
  more: string;
}

/** moments.rs: how far an answer is, or the answer. */
export type Answer =
  | { state: "waiting"; before: number }
  | { state: "reading"; read: [number, number] | null }
  | { state: "refused"; why: string }
  | Moment;

export interface Moment {
  state: "done";
  now: Now;
  table: Table;
  page: { title: string; lines: [kind: "plain" | "strong" | "faint" | "marked", text: string][] } | null;
}
