// A map of reserved address space and of the VMM handles that are mapped in it.

import { bytes, many } from "../lib/format";
import { item, sumOf } from "../lib/item";
import { isFound } from "./find";
import { HANDLE, isWhole, lastUpTo, liveAt } from "./history";
import { hasPool } from "./map";
import { blockWords, hex, isPinned, libraryOf, pinBlock } from "./map_kinds";
import { type Group, MOST_ROWS, type Piece, type Row } from "./map_rows";
import type { MapAt, MapView } from "./map_view";
import { poolNameOf, poolWords } from "./pool_names";
import { type Segment, segmentsAt } from "./segments";
import { SPAN, type Span, spansAt } from "./spans";

/** Adjacent handles alternate between these colours. */
const COLOURS = ["--hue-3", "--hue-9"];
/** Unmapped space takes at most this part of the mapped space's width; more is folded. */
const FOLD = 1 / 16;

interface Handle {
  /** Its driver block; undefined: the memory belongs to another device or process. */
  block: number | undefined;
  bytes: number;
  mappings: Span[];
}

/** The input of the map. */
interface Space {
  at: MapAt;
  handles: Map<number, Handle>;
  ranges: Span[];
  mappings: Span[];
  segments: Segment[];
}

function spaceAt(at: MapAt): Space {
  const { driver, spans, seq } = at, handles = new Map<number, Handle>();
  for (const block of driver ? liveAt(driver, lastUpTo(driver.ticks.seqs, seq)) : []) {
    if (driver && item(driver.kinds, block) & HANDLE) handles.set(item(driver.addresses, block), { block, bytes: item(driver.bytes, block), mappings: [] });
  }
  // Address space belongs to no device: it is shown if memory of the device is mapped in it, or if it is empty.
  const all = spansAt(spans, SPAN.mapping, seq), isOwn = (of: Span) => of.device === at.device || of.device === null || handles.has(of.handle);
  const ranges = spansAt(spans, SPAN.addresses, seq).filter((range) => {
    const inside = all.filter((of) => isIn(of, range));
    return !inside.length || inside.some(isOwn);
  });
  const mappings = all.filter((of) => isOwn(of) || ranges.some((range) => isIn(of, range)));
  for (const of of mappings) {
    const handle = handles.get(of.handle) ?? { block: undefined, bytes: 0, mappings: [] };
    handle.mappings.push(of);
    handles.set(of.handle, handle);
  }
  const segments = hasPool(at) ? segmentsAt(at.tensors, at.driver, spans, seq).pool.filter((of) => of.expandable) : [];
  return { at, handles, ranges, mappings, segments };
}

function isIn(of: Span, range: Span): boolean {
  return range.address <= of.address && of.address < range.address + range.bytes;
}

/** The expandable segment that a mapping is a part of. */
function segmentWords({ at, segments }: Space, of: Span): string {
  const found = segments.find((segment) => segment.address <= of.address && of.address < segment.address + segment.bytes);
  if (!found || !hasPool(at)) return "";
  return ` · PyTorch's expandable segment of ${bytes(found.bytes)} in ${many(found.made.length, "handle", "handles")}, ${poolWords(poolNameOf(found, at.tensors, at.driver, at.spans, at.seq))}`;
}

function mappingWords(space: Space, of: Span): string {
  const { at, handles } = space, handle = handles.get(of.handle), here = `${bytes(of.bytes)} mapped at ${hex(of.address)}`;
  if (handle?.block === undefined || !at.driver) return `${here}: handle ${hex(of.handle)}, memory of ${of.device === at.device || of.device === null ? "another process or API" : `GPU ${of.device}`}`;
  const part = of.bytes < handle.bytes ? `, a part of the handle (which one is not recorded)` : "";
  const more = handle.mappings.length > 1 ? `, mapped at ${many(handle.mappings.length, "address", "addresses")}` : "";
  return `${here}${part}${more}: ${blockWords(at.driver, handle.block)}${segmentWords(space, of)}`;
}

/** The boxes of mapped space, with wide unmapped space folded; and the length of the bar. */
function bar(space: Space, from: number, to: number, mappings: readonly Span[], most: number): { pieces: Piece[]; wide: number } {
  const { at, handles } = space, pieces: Piece[] = [], fold = most * FOLD;
  let address = from, wide = 0;
  const unmapped = (until: number) => {
    const gap = until - address;
    if (gap <= 0) return;
    const drawn = Math.min(gap, fold), starts = address;
    pieces.push({ from: wide, wide: drawn, colour: "--soft", look: gap > fold ? "fold" : "full", bytes: gap, says: () => `${bytes(gap)} reserved at ${hex(starts)}, nothing is mapped` });
    wide += drawn;
  };
  mappings.forEach((of, index) => {
    unmapped(of.address);
    const handle = handles.get(of.handle), block = handle?.block, driver = at.driver;
    const colour = block === undefined ? "--unknown" : item(COLOURS, index % COLOURS.length);
    const pinned = block !== undefined && driver ? { pin: pinBlock(driver, block, at.levels), pinned: isPinned(driver, block, at.levels), found: isFound(driver, block) } : {};
    pieces.push({ from: wide, wide: of.bytes, colour, look: (handle?.mappings.length ?? 0) > 1 ? "striped" : "full", bytes: of.bytes, says: () => mappingWords(space, of), ...pinned });
    wide += of.bytes;
    address = of.address + of.bytes;
  });
  unmapped(to);
  return { pieces, wide };
}

/** The owner of a range, for its label. */
function ownerOf(space: Space, range: Span): string {
  const { at } = space, of = space.segments.find((segment) => range.address <= segment.address && segment.address < range.address + range.bytes);
  if (!of || !hasPool(at)) return hex(range.address);
  const name = poolNameOf(of, at.tensors, at.driver, at.spans, at.seq);
  return `PyTorch's, ${name ? `${name.isSmall ? "small" : "large"} blocks` : "pool not known"}`;
}

function rangeRow(space: Space, range: Span, most: number, index: number): Row {
  const inside = space.mappings.filter((of) => isIn(of, range)), mapped = sumOf(inside, (of) => of.bytes);
  const { pieces, wide } = bar(space, range.address, range.address + range.bytes, index < MOST_ROWS ? inside : [], most);
  return { label: `${bytes(mapped)} of ${bytes(range.bytes)} · ${ownerOf(space, range)}`, wide, bytes: range.bytes, pieces };
}

function unmappedRow({ at }: Space, handle: Handle, block: number): Row {
  const { driver } = at;
  return { label: `${bytes(handle.bytes)} · ${driver ? libraryOf(driver, block) : ""}`, wide: handle.bytes, bytes: handle.bytes, pieces: [{
    from: 0, wide: handle.bytes, colour: "--hue-1", look: "full", bytes: handle.bytes, says: () => (driver ? `mapped nowhere: ${blockWords(driver, block)}` : ""),
    pin: driver ? pinBlock(driver, block, at.levels) : undefined, pinned: driver ? isPinned(driver, block, at.levels) : false, found: driver ? isFound(driver, block) : false,
  }] };
}

export function vmmView(at: MapAt): MapView {
  const space = spaceAt(at), { ranges, mappings } = space, size = (of: { bytes: number }) => of.bytes;
  const own = [...space.handles.values()].filter((of) => of.block !== undefined), foreign = mappings.filter((of) => space.handles.get(of.handle)?.block === undefined);
  const nowhere = own.filter((of) => !of.mappings.length), twice = own.filter((of) => of.mappings.length > 1);
  const inside = ranges.map((range) => mappings.filter((of) => isIn(of, range))), loose = mappings.filter((of) => !ranges.some((range) => isIn(of, range)));
  const mapped = inside.map((of) => sumOf(of, size)), most = Math.max(1, ...mapped, ...mappings.map(size), ...nowhere.map(size));
  const order = [...ranges.keys()].sort((a, b) => item(mapped, b) - item(mapped, a) || item(ranges, b).bytes - item(ranges, a).bytes);
  const groups: Group[] = [{ title: "Reserved address space", bytes: sumOf(ranges, size), rows: order.map((place, index) => rangeRow(space, item(ranges, place), most, index)),
    note: "One row for each reservation: what of it is mapped, those with most first. Addresses cost no memory of the card." }];
  if (loose.length) groups.push({ title: "Mapped where no reservation is recorded", bytes: sumOf(loose, size), rows: loose.map((of): Row =>
    ({ label: `${bytes(of.bytes)} · ${hex(of.address)}`, bytes: of.bytes, ...bar(space, of.address, of.address + of.bytes, [of], most) })) });
  if (nowhere.length) groups.push({ title: "Handles that are mapped nowhere", bytes: sumOf(nowhere, size), note: "They hold memory of the card that cannot be used until it is mapped.",
    rows: nowhere.map((of) => unmappedRow(space, of, of.block ?? 0)) });
  const reserved = sumOf(ranges, size), figures: MapView["figures"] = [["memory of handles", sumOf(own, size)], ["mapped nowhere", sumOf(nowhere, size)],
    ["handles mapped more than once", sumOf(twice, size)], ["address space reserved", reserved], ["of that unmapped", reserved - sumOf(mapped, (of) => of)]];
  if (foreign.length) figures.push(["mapped, of another process or GPU", sumOf(foreign, size)]);
  return {
    said: isWhole(at.spans, at.seq) && (!at.driver || isWhole(at.driver, at.seq)) ? "" : "Handles or mappings are left out of this page that were there then.",
    figures, groups,
    legend: [{ name: "a mapped handle", colour: item(COLOURS, 0) }, { name: "the next one", colour: item(COLOURS, 1) },
      ...(twice.length ? [{ name: "mapped at several addresses", colour: item(COLOURS, 0), look: "striped" } as const] : []),
      ...(nowhere.length ? [{ name: "mapped nowhere", colour: "--hue-1" }] : []), ...(foreign.length ? [{ name: "memory of another process or GPU", colour: "--unknown" }] : []),
      { name: "nothing mapped; a zigzag: much of that", colour: "--soft" }],
  };
}
