// A map of pools: PyTorch's default and private ones, CUDA's own, and the driver's memory for graphs.

import { bytes, many } from "../lib/format";
import { compare, item, sumOf } from "../lib/item";
import { isFound } from "./find";
import { CUDA_POOL, GRAPH, MANAGED, lastUpTo, liveAt } from "./history";
import { type PoolAt, hasPool, partsOf, poolLegend, segmentRow, sizeOf } from "./map";
import { blockWords, hex, isPinned, kindOf, pinBlock } from "./map_kinds";
import type { Group, Piece, Row } from "./map_rows";
import type { MapAt, MapView } from "./map_view";
import { paintOf } from "./paint";
import { type PoolName, poolNameOf, poolTitle } from "./pool_names";
import { type Segment, segmentsAt } from "./segments";
import { SPAN, type Span, spansAt } from "./spans";

/** Small blocks before large ones, the default pool before private ones. */
function keyOf(name: PoolName): string {
  return [name.high, name.low].map((part) => String(part).padStart(16, "0")).join(" ") + (name.isSmall ? " 0" : " 1");
}

function torchGroups(at: PoolAt): Group[] {
  const map = segmentsAt(at.tensors, at.driver, at.spans, at.seq), paint = paintOf(at.tensors);
  const known = new Map<string, { name: PoolName; segments: Segment[]; streams: Set<number> }>(), unknown: Segment[] = [];
  for (const segment of map.pool) {
    const name = poolNameOf(segment, at.tensors, at.driver, at.spans, at.seq);
    if (!name) {
      unknown.push(segment);
      continue;
    }
    const of = known.get(keyOf(name)) ?? { name, segments: [], streams: new Set() };
    of.segments.push(segment);
    of.streams.add(name.stream);
    known.set(keyOf(name), of);
  }
  const group = (title: string, segments: readonly Segment[], more: string): Group => {
    const { live, slack, waiting, free } = partsOf(at, segments);
    const waits = waiting ? `${bytes(waiting)} waiting for a stream, ` : "";
    return { title, bytes: sumOf(segments, sizeOf), rows: segments.map((of, index) => segmentRow(at, of, paint, index)),
      note: `${many(segments.length, "segment", "segments")}: ${bytes(live)} allocated (${bytes(slack)} of it rounded up), ${waits}${bytes(free)} free. ${more}`.trim() };
  };
  const groups = [...known].sort((a, b) => compare(a[0], b[0])).map(([, { name, segments, streams }]) => {
    const title = `PyTorch's ${poolTitle(name)}, blocks ${name.isSmall ? "up to" : "above"} 1 MiB`;
    return group(title, segments, streams.size > 1 ? `Of ${many(streams.size, "stream", "streams")}: a stream uses its own segments alone.` : "");
  });
  const { unmapped } = map, sum = sumOf(unmapped, (block) => item(at.driver.bytes, block));
  if (unmapped.length) groups.push({ title: "PyTorch's handles that are mapped nowhere", bytes: sum, rows: [], note: "In no segment yet, or no longer." });
  if (unknown.length) groups.push(group("PyTorch's segments of a pool that is not known", unknown, "No tensor of this page was ever in them."));
  return groups;
}

function blockPieces(at: MapAt, blocks: readonly number[]): Piece[] {
  const { driver } = at, pieces: Piece[] = [];
  let from = 0;
  for (const block of driver ? blocks : []) {
    if (!driver) break;
    const size = item(driver.bytes, block);
    pieces.push({ from, wide: size, colour: kindOf(driver, block).colour, look: "full", bytes: size, says: () => blockWords(driver, block),
      pin: pinBlock(driver, block, at.levels), pinned: isPinned(driver, block, at.levels), found: isFound(driver, block) });
    from += size;
  }
  return pieces;
}

/** Live bytes as a part of the physical memory. */
function usedRow(at: MapAt, label: string, blocks: readonly number[], reserved: number): Row {
  const pieces = blockPieces(at, blocks), used = sumOf(pieces, (of) => of.wide), unused = reserved - used;
  if (unused > 0) pieces.push({ from: used, wide: unused, colour: "--soft", look: "full", bytes: unused, says: () => `${bytes(unused)} reserved and unused` });
  return { label: `${bytes(used)} of ${bytes(reserved)} live${label}`, wide: Math.max(reserved, used), bytes: reserved, pieces };
}

function reservedRow(of: Span): Row {
  return { label: `${bytes(of.bytes)} · pool ${hex(of.address)}`, wide: of.bytes, bytes: of.bytes, pieces: [{
    from: 0, wide: of.bytes, colour: "--cached", look: "full", bytes: of.bytes, says: () => `pool ${hex(of.address)}: the card gave it ${bytes(of.bytes)} (${many(of.bytes, "byte", "bytes")})`,
  }] };
}

const UNKNOWN = "The memory that the pools reserve was not recorded.";

function rest(reserved: number, used: number): string {
  return used <= reserved ? `${bytes(reserved - used)} unused.` : `${bytes(used - reserved)} requested, not yet allocated.`;
}

function cudaGroups(at: MapAt, blocks: readonly number[], pools: readonly Span[]): Group[] {
  const { driver } = at, used = driver ? sumOf(blocks, (block) => item(driver.bytes, block)) : 0, reserved = sumOf(pools, sizeOf);
  if (!blocks.length && !pools.length) return [];
  const title = "CUDA's own pools (cudaMallocAsync)", [only] = pools;
  const note = `${bytes(used)} live in ${many(blocks.length, "block", "blocks")}. ${at.hasPhysical ? rest(reserved, used) : UNKNOWN}`;
  if (only && pools.length === 1) return [{ title, bytes: reserved, note, rows: [usedRow(at, ` · pool ${hex(only.address)}`, blocks, reserved)] }];
  const live: Row = { label: `${bytes(used)} live`, wide: used, bytes: used, pieces: blockPieces(at, blocks) };
  const several = pools.length ? " Which pool each block is from is not recorded: the first row has the blocks of all pools, the others what the card gave each pool." : "";
  return [{ title, bytes: reserved, note: note + several, rows: [...(blocks.length ? [live] : []), ...pools.map(reservedRow)] }];
}

function graphGroups(at: MapAt, blocks: readonly number[], given: readonly Span[]): Group[] {
  const { driver } = at, used = driver ? sumOf(blocks, (block) => item(driver.bytes, block)) : 0, reserved = sumOf(given, sizeOf);
  const nodes = spansAt(at.spans, SPAN.node, at.seq).filter((of) => of.device === at.device);
  if (!blocks.length && !given.length && !nodes.length) return [];
  const made = nodes.length || at.spans.nodesLeftOut
    ? ` ${many(nodes.length, "memory node", "memory nodes")} of ${many(new Set(nodes.map((of) => of.handle)).size, "graph", "graphs")}, ${bytes(sumOf(nodes, sizeOf))}, made up to then; no event says when a graph ends.` : "";
  const lost = at.spans.nodesLeftOut ? ` ${many(at.spans.nodesLeftOut, "later node is", "later nodes are")} not in this page.` : "";
  return [{ title: "The driver's memory for CUDA graphs", bytes: reserved, rows: [usedRow(at, "", blocks, reserved)],
    note: `${bytes(used)} live in ${many(blocks.length, "block", "blocks")}, each from a launch to its free. ${at.hasPhysical ? rest(reserved, used) : UNKNOWN}${made}${lost}` }];
}

export function poolsView(at: MapAt): MapView {
  const { driver, spans, seq } = at, live = driver ? liveAt(driver, lastUpTo(driver.ticks.seqs, seq)) : [];
  const of = (bit: number) => live.filter((block) => driver && (item(driver.kinds, block) & (bit | MANAGED)) === bit);
  const own = (kind: typeof SPAN.pool | typeof SPAN.graphs) => spansAt(spans, kind, seq).filter((span) => span.device === at.device);
  const pools = own(SPAN.pool), graphs = own(SPAN.graphs), size = (block: number) => (driver ? item(driver.bytes, block) : 0);
  const torch = hasPool(at) ? torchGroups(at) : [];
  const figures: MapView["figures"] = torch.length ? [["PyTorch's pools", sumOf(torch, sizeOf)]] : [];
  const cuda = cudaGroups(at, of(CUDA_POOL), pools), graph = graphGroups(at, of(GRAPH), graphs);
  if (cuda.length) figures.push(["CUDA's pools, given by the card", sumOf(pools, sizeOf)], ["live in CUDA's pools", sumOf(of(CUDA_POOL), size)]);
  if (graph.length) figures.push(["for graphs, given by the card", sumOf(graphs, sizeOf)], ["live in graphs", sumOf(of(GRAPH), size)]);
  const colours = [...of(CUDA_POOL), ...of(GRAPH)].flatMap((block) => (driver ? [kindOf(driver, block)] : []));
  return {
    said: saidOf(at), figures, groups: [...torch, ...cuda, ...graph],
    legend: [...(hasPool(at) && torch.length ? poolLegend(paintOf(at.tensors)) : []), ...new Map(colours.map((kind) => [kind.name, kind])).values()],
  };
}

function saidOf(at: MapAt): string {
  const { seq, spans, driver, tensors } = at;
  const isIn = (of: { whole: boolean; stretches: readonly [number, number][] }) => of.whole || of.stretches.some(([from, to]) => from <= seq && seq <= to);
  return [spans, driver, tensors].every((of) => !of || isIn(of)) ? "" : "Blocks or pools are left out of this page that were there then.";
}
