// A map of driver memory outside PyTorch's pool, library by library.

import { bytes } from "../lib/format";
import { grouped, item, sumOf } from "../lib/item";
import { named } from "./blocks";
import { isFound } from "./find";
import { HANDLE, type History, MANAGED, isWhole, lastUpTo, liveAt } from "./history";
import { hasPool } from "./map";
import { blockWords, hex, isPinned, kindOf, libraryOf, pinBlock } from "./map_kinds";
import type { Group, Row } from "./map_rows";
import type { MapAt, MapView } from "./map_view";
import { segmentsAt } from "./segments";
import { SPAN, spansAt } from "./spans";

/** The driver's level as the sum of both maps. */
export interface DriverParts {
  level: number;
  pool: number;
  others: number;
  /** Bytes of the level in blocks that are not in the page. */
  leftOut: number;
  blocks: readonly number[];
}

export function driverParts(at: MapAt): DriverParts {
  const { driver } = at;
  if (!driver) return { level: 0, pool: 0, others: 0, leftOut: 0, blocks: [] };
  const tick = lastUpTo(driver.ticks.seqs, at.seq), size = (block: number) => item(driver.bytes, block);
  const live = liveAt(driver, tick), level = tick < 0 ? 0 : item(driver.ticks.totals, tick), all = sumOf(live, size);
  const blocks = hasPool(at) ? segmentsAt(at.tensors, driver, at.spans, at.seq).others : live.sort((a, b) => size(b) - size(a));
  const others = sumOf(blocks, size);
  return { level, pool: all - others, others, leftOut: level - all, blocks };
}

function rowOf(at: MapAt, of: History, block: number): Row {
  const size = item(of.bytes, block), kind = kindOf(of, block), line = named(of, block).replace(/\S*\//, "");
  const piece = { from: 0, wide: size, colour: kind.colour, look: "full" as const, bytes: size, says: () => blockWords(of, block),
    pin: at.levels.includes(of.level) ? pinBlock(of, block, at.levels) : undefined, pinned: isPinned(of, block, at.levels), found: isFound(of, block) };
  return { label: `${bytes(size)} · ${line}`, wide: size, bytes: size, pieces: [piece] };
}

function groupsOf(at: MapAt, of: History, blocks: readonly number[], title: (library: string) => string, note?: string): Group[] {
  const size = (block: number) => item(of.bytes, block);
  const byLibrary = [...grouped(blocks, (block) => libraryOf(of, block))];
  return byLibrary.map(([library, own]): Group => {
    const group = { title: title(library), bytes: sumOf(own, size), rows: own.map((block) => rowOf(at, of, block)) };
    return note ? { ...group, note } : group;
  }).sort((a, b) => b.bytes - a.bytes);
}

function aliases(at: MapAt): Group[] {
  const all = spansAt(at.spans, SPAN.alias, at.seq).filter((of) => of.device === at.device);
  if (!all.length) return [];
  const rows = all.map((of): Row => ({ label: `${bytes(of.bytes)} · ${hex(of.address)}`, wide: of.bytes, bytes: of.bytes, pieces: [{
    from: 0, wide: of.bytes, colour: "--unknown", look: "striped", bytes: of.bytes, says: () => `${bytes(of.bytes)} at ${hex(of.address)}: another process, device or API allocated it`,
  }] }));
  return [{ title: "Owned elsewhere", bytes: sumOf(all, (of) => of.bytes), rows, note: "Opened or imported by this process (IPC, shared handles); not part of the driver level." }];
}

export function driverView(at: MapAt): MapView {
  const { driver, host } = at, parts = driverParts(at), size = (block: number) => (driver ? item(driver.bytes, block) : 0);
  const hosts = host ? liveAt(host, lastUpTo(host.ticks.seqs, at.seq)).sort((a, b) => item(host.bytes, b) - item(host.bytes, a)) : [];
  const owned = aliases(at);
  const groups = [
    ...(driver ? groupsOf(at, driver, parts.blocks, (library) => library) : []),
    ...(host ? groupsOf(at, host, hosts, (library) => `Pinned host memory, ${library}`, "Memory of the host, not of the card.") : []), ...owned,
  ];
  const managed = parts.blocks.filter((block) => driver && item(driver.kinds, block) & MANAGED);
  const used = new Map([...parts.blocks.flatMap((block) => (driver ? [kindOf(driver, block)] : [])), ...hosts.flatMap((block) => (host ? [kindOf(host, block)] : []))]
    .map((kind) => [kind.name, kind.colour]));
  const figures: MapView["figures"] = [["other driver allocations", parts.others]];
  if (managed.length) figures.push(["of that managed", sumOf(managed, size)]);
  if (host) figures.push(["pinned host memory", sumOf(hosts, (block) => item(host.bytes, block))]);
  if (owned.length) figures.push(["owned elsewhere", sumOf(owned, (of) => of.bytes)]);
  return { said: saidOf(at, parts), figures, groups, legend: [...used].map(([name, colour]) => ({ name, colour })) };
}

function saidOf(at: MapAt, parts: DriverParts): string {
  const said = [];
  if (parts.leftOut) said.push(`${bytes(parts.leftOut)} of the driver level are in blocks that are not in this page.`);
  if (at.host && !isWhole(at.host, at.seq)) said.push("Blocks of pinned host memory are left out of this page.");
  return said.join(" ");
}

/** Whether the device has a block of this kind at any time. */
export function hasHandles(of: History | undefined): boolean {
  return Boolean(of?.kinds.some((bits) => bits & HANDLE));
}
