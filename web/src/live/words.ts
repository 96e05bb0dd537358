// Labels of choices.

import type { By, LevelName, MomentName } from "./data";

/** What rows stand for, and the heading of their column. */
export const BY: Record<By, string> = { line: "Lines", category: "Categories", module: "Modules" };
export const ONE: Record<By, string> = { line: "Line", category: "Category", module: "Module" };
export const LEVELS: Record<LevelName, string> = {
  tensor: "tensors", driver: "memory from CUDA", host: "pinned host memory", physical: "physical memory",
};
export const MOMENTS: Record<MomentName, string> = { now: "now", peak: "at the peak so far" };
/** The same while a past point in time is shown. */
export const THEN: Record<MomentName, string> = { now: "then", peak: "at the peak up to then" };
export const SORTS = { bytes: "bytes", blocks: "blocks", name: "name" };
