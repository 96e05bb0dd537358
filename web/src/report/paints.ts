// What determines the colours of blocks.

export const PAINTS = ["category", "line", "module"] as const;
export type Paint = (typeof PAINTS)[number];
