// By what blocks have their colours.

export const PAINTS = ["category", "line", "module"] as const;
export type Paint = (typeof PAINTS)[number];
