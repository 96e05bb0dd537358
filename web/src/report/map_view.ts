// The input and the output of every map.

import type { Group } from "./map_rows";
import type { History } from "./history";
import type { Spans } from "./spans";

/** The point in time of a map, and what is known of the device. */
export interface MapAt {
  seq: number;
  /** Ordinal; null: no device. */
  device: number | null;
  hasPhysical: boolean;
  tensors: History | undefined;
  driver: History | undefined;
  host: History | null;
  spans: Spans;
  /** The levels that the chart can show, in its order. */
  levels: readonly string[];
}

export interface MapView {
  /** Notes before the groups: what is missing or unknown. */
  said: string;
  figures: [name: string, bytes: number][];
  legend: { name: string; colour: string; look?: "striped" | "outline" | "low" }[];
  groups: Group[];
}
