// The choices: a part of the memory, the meaning of colours, the height of rows, a rank.

import type { Part } from "./data";
import { data } from "./job";

/** A position in the heatmap: a rank, a column, and the number of other ranks in the same line. */
export interface At {
  index: number;
  column: number;
  others: number;
}

export const state = {
  part: 0 as Part,
  /** 0: colours show bytes, 1: they show the difference from peers. */
  mode: 0 as 0 | 1,
  /** 0: all rows in view, 1: large ones. */
  tall: 0 as 0 | 1,
  /** A rank's index; -1: no rank. */
  pinned: -1,
  at: null as At | null,
};

type Choices = Omit<typeof state, "at">;
export type Change = keyof Choices;

const listeners: ((what: Change) => void)[] = [];

export function on(changed: (what: Change) => void): void {
  listeners.push(changed);
}

export function tell(what: Change): void {
  for (const listener of listeners) listener(what);
}

export function choose<K extends Change>(what: K, value: Choices[K]): void {
  (state as Choices)[what] = value;
  tell(what);
}

/** Starts with the rank that differs most, and with the part in which it differs. */
export function startState(): void {
  const [first] = data.outliers;
  if (!first) return;
  state.pinned = data.ranks.rank.indexOf(first.rank);
  state.part = first.metric === "cache" ? 1 : first.metric === "outside" || first.metric === "unexplained" ? 2 : 0;
}
