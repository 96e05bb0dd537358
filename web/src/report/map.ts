// A map of PyTorch's segments at the shown point in time.

import { bytes, count, many, time } from "../lib/format";
import { item, sumOf } from "../lib/item";
import { named } from "./blocks";
import { isFound } from "./find";
import type { History } from "./history";
import { blockWords, hex, isPinned, pinBlock } from "./map_kinds";
import { type Group, MOST_ROWS, type Piece, type Row } from "./map_rows";
import { failureNow } from "./map_steps";
import type { MapAt, MapView } from "./map_view";
import { type Painted, paintOf } from "./paint";
import { poolNameOf, poolWords } from "./pool_names";
import { type Placed, type Segment, type Segments, largestFree, liveBytes, segmentsAt } from "./segments";
import { callWords } from "./stack_words";

/** A map with tensors and the driver's level. */
export interface PoolAt extends MapAt {
  tensors: History;
  driver: History;
}

export function hasPool(at: MapAt): at is PoolAt {
  return Boolean(at.tensors && at.driver);
}

export function cssOf(pixel: number): string {
  return `rgb(${pixel & 0xff} ${pixel >>> 8 & 0xff} ${pixel >>> 16 & 0xff})`;
}

/** The lines that hold most of a segment, and so prevent its release. */
function pinnedBy(tensors: History, segment: Segment): string {
  const lines = new Map<string, number>();
  for (const { block, bytes: size } of segment.blocks) {
    const line = named(tensors, block);
    lines.set(line, (lines.get(line) ?? 0) + size);
  }
  const rows = [...lines].sort((a, b) => b[1] - a[1]);
  return rows.length ? `pinned by ${rows.slice(0, 3).map(([line, size]) => `${bytes(size)} ${line}`).join("; ")}${rows.length > 3 ? `; ${many(rows.length - 3, "more line", "more lines")}` : ""}`
    : "it is empty";
}

function segmentWords(at: PoolAt, segment: Segment): string {
  const handles = segment.expandable ? `, expandable, of ${many(segment.made.length, "handle", "handles")}` : "";
  const name = poolNameOf(segment, at.tensors, at.driver, at.spans, at.seq);
  return `segment ${hex(segment.address)}, ${bytes(segment.bytes)}${handles}, ${poolWords(name)}, ` +
    `${bytes(liveBytes(segment))} allocated in ${many(segment.blocks.length, "block", "blocks")}; ${pinnedBy(at.tensors, segment)}; ${takenBy(at.driver, segment)}`;
}

/**
 * The origin of a segment: the line, the time, and the newest calls. For a segment made of handles, that of the
 * first mapped one.
 */
function takenBy(driver: History, segment: Segment): string {
  const block = segment.made[0]?.block;
  if (block === undefined) return "the line that took it from the driver is not known";
  const tick = item(driver.made, block), stack = callWords(item(driver.stacks, block));
  const which = segment.made.length > 1 ? "its first handle was taken" : "taken";
  return `${which} from the driver by ${named(driver, block)}, ${time(item(driver.ticks.times, tick), 0)}, event ${count(item(driver.ticks.seqs, tick))}${stack ? `: ${stack}` : ""}`;
}

/** A segment's blocks and the free memory between them. */
export function segmentPieces(at: PoolAt, segment: Segment, paint: Painted): Piece[] {
  const { tensors, levels } = at, asked = failureNow()?.bytes, place = segmentWords.bind(null, at, segment);
  const pieces = segment.blocks.flatMap(({ block, address, bytes: size, waits }): Piece[] => {
    const slack = Math.max(0, item(tensors.slack, block)), from = address - segment.address;
    const says = () => `${bytes(size)} ${named(tensors, block)}${slack > 0 ? `, ${bytes(slack)} of it rounded up` : ""}${waits ? ", freed, waits for a stream" : ""} · ${place()}`;
    const of = { colour: waits ? "--faint" : cssOf(item(paint.pixels, block)), says, pin: pinBlock(tensors, block, levels), pinned: isPinned(tensors, block, levels), found: isFound(tensors, block) };
    const used: Piece = { ...of, from, wide: size - slack, look: waits ? "striped" : "full", bytes: size - slack };
    return slack > 0 ? [used, { ...of, from: from + size - slack, wide: slack, look: waits ? "striped" : "low", bytes: slack }] : [used];
  });
  const made = segment.made[0]?.block, itself = made === undefined ? undefined : pinBlock(at.driver, made, levels);
  const pinned = made !== undefined && isPinned(at.driver, made, levels);
  const free = segment.free.map(({ address, bytes: size }): Piece => {
    const fits = asked !== undefined && size >= asked;
    // Free memory has no owner: a click pins the segment itself, as the driver allocated it.
    return { from: address - segment.address, wide: size, pin: itself, pinned, colour: fits ? "--good" : "--soft", look: fits ? "outline" : "full", bytes: size,
      says: () => `${bytes(size)} free${fits ? ", room for the request that failed" : ""} · ${place()}` };
  });
  return [...pieces, ...free];
}

export function segmentRow(at: PoolAt, segment: Segment, paint: Painted, index: number): Row {
  const kind = segment.expandable ? ` · ${many(segment.made.length, "handle", "handles")}` : "";
  return { label: `${bytes(segment.bytes)} · ${bytes(liveBytes(segment))} allocated${kind}`, wide: segment.bytes, bytes: segment.bytes,
    pieces: index < MOST_ROWS ? segmentPieces(at, segment, paint) : [] };
}

export function sizeOf(of: { bytes: number }): number {
  return of.bytes;
}

/** The allocated, rounding, waiting and free bytes in segments. */
export function partsOf(at: PoolAt, segments: readonly Segment[]): { live: number; slack: number; waiting: number; free: number } {
  const blocks = segments.flatMap((of) => of.blocks), live = blocks.filter((of) => !of.waits);
  const slack = (of: Placed) => Math.max(0, item(at.tensors.slack, of.block));
  return { live: sumOf(live, sizeOf), slack: sumOf(live, slack), waiting: sumOf(blocks.filter((of) => of.waits), sizeOf), free: sumOf(segments.flatMap((of) => of.free), sizeOf) };
}

function said(map: Segments): string {
  if (!map.isWhole) return "Blocks are left out of this page that were live then: what looks free may be in use.";
  if (map.loose) return `${bytes(map.loose)} of tensors are in no recorded segment: they are not in this map.`;
  const asked = failureNow(), pieces = map.pool.flatMap((of) => of.free).filter((of) => asked && of.bytes >= asked.bytes);
  if (!asked) return "";
  return pieces.length
    ? `The request that failed, ${bytes(asked.bytes)}, would fit in ${many(pieces.length, "free block", "free blocks")} (outlined), which can belong to another stream or pool, or be for small blocks.`
    : `The request that failed, ${bytes(asked.bytes)}, fits in no free block.`;
}

export function segmentsView(at: PoolAt): MapView {
  const map = segmentsAt(at.tensors, at.driver, at.spans, at.seq), paint = paintOf(at.tensors);
  const parts = partsOf(at, map.pool), unmapped = sumOf(map.unmapped, (block) => item(at.driver.bytes, block)), segments = sumOf(map.pool, sizeOf);
  const group: Group = { title: "Segments, the largest first", bytes: segments, rows: map.pool.map((of, index) => segmentRow(at, of, paint, index)) };
  return {
    said: said(map),
    figures: [["reserved", segments + unmapped], ["allocated", parts.live], ["of that rounded up", parts.slack], ["waiting for a stream", parts.waiting], ["free", parts.free],
      ["largest free block", Math.max(0, ...map.pool.map(largestFree))]],
    legend: poolLegend(paint),
    groups: unmapped ? [group, unmappedGroup(at, map.unmapped, unmapped)] : [group],
  };
}

/** Handles that PyTorch has created for an expandable segment and not mapped yet, or unmapped and not released yet. */
function unmappedGroup({ driver, levels }: PoolAt, blocks: readonly number[], sum: number): Group {
  const rows = blocks.map((block): Row => {
    const size = item(driver.bytes, block);
    return { label: bytes(size), wide: size, bytes: size, pieces: [{ from: 0, wide: size, colour: "--hue-1", look: "full", bytes: size,
      says: () => `mapped nowhere: ${blockWords(driver, block)}`, pin: pinBlock(driver, block, levels), pinned: isPinned(driver, block, levels), found: isFound(driver, block) }] };
  });
  return { title: "Handles for expandable segments that are mapped nowhere", bytes: sum, rows };
}

export function poolLegend(paint: Painted): MapView["legend"] {
  return [...paint.legend, { name: "lower half: rounded up", colour: "--tensors", look: "low" }, { name: "freed, waits for a stream", colour: "--faint", look: "striped" },
    { name: "free", colour: "--soft" }, ...(failureNow() ? [{ name: "free, room for the request that failed", colour: "--good", look: "outline" } as const] : [])];
}
