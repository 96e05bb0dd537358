// Colours of bands, lines and phases. Names that begin with -- belong to the style.

import type { Band, BandKind, Device } from "./data";
import { item } from "../lib/item";

const LIBRARIES = ["#cc79a7", "#8c6d31", "#c5b000", "#56b4e9", "#d55e00", "#7f5fb0", "#e69f00", "#009e73"];

/** The phases with a fixed colour. */
export const PHASES = [["backward", "#8e44ad"], ["optimizer", "#16a085"], ["zero_grad", "#f1a340"], ["another phase", "#7f8c8d"]] as const;

const BANDS: Partial<Record<BandKind, string>> = {
  tensors: "var(--tensors)", cached: "var(--cached)", beyond: "var(--beyond)", unknown: "var(--unknown)",
  graph: "#44aa99", other_libraries: "#a6761d",
};

export function bandColours(bands: readonly Band[]): string[] {
  let library = 0;
  return bands.map((band) => {
    if (band.category) return `var(--${band.category.replace(" ", "-")})`;
    return BANDS[band.kind] ?? item(LIBRARIES, library++ % LIBRARIES.length);
  });
}

/**
 * The same line has the same colour in every segment. Only the lines that hold most have a colour; merged lines do
 * not.
 */
export function lineColours(pool: NonNullable<Device["pool"]>): (line: string) => string {
  const sums = new Map<string, number>();
  for (const { line, bytes } of pool.segments.flatMap((of) => of.lines)) sums.set(line, (sums.get(line) ?? 0) + bytes);
  const single = [...sums].filter(([line]) => !/^[\d,]+ more lines?$/.test(line));
  const largest = single.sort((a, b) => b[1] - a[1]).map(([line]) => line);
  return (line) => LIBRARIES[largest.indexOf(line)] ?? "var(--unknown)";
}
