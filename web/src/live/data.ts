// The JSON that analyzer/live/src/serve sends: events, and answers to requests about past points in time.

/** From now.rs: the program, its devices, its failures. */
export interface Now {
  state: "reading" | "running" | "ended" | "killed" | "stopped";
  /** Bytes read, and bytes in all. */
  read?: [number, number];
  /** When the program ended. */
  ended?: number;
  /** Why reading stopped. */
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

/** The peak so far of a level on a device. */
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

/** From course.rs: the highest memory in each time interval. */
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

/** From table.rs: the owners of the memory. */
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
  /** Identifies the row in a request. */
  key: string;
  device: number | null;
  bytes: number;
  blocks: number;
  /** The share of all rows: `31 %`. */
  share: string;
  name: string;
  of: string;
  more: string;
}

/** From moments.rs: the progress of an answer, or the answer. */
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
