// Bytes by PyTorch module, as a tree whose rows open and close.

import { type Child, byId, fill, make, options } from "../lib/dom";
import { figure } from "../lib/figure";
import { count, many, percent } from "../lib/format";
import { compare } from "../lib/item";
import { holdersNow, levelNow, moments } from "./categories";
import type { Module } from "./sections_data";
import { device } from "./state";
import { headCell } from "./tables";
import { ofRun } from "./words";

const KEYS = ["name", "bytes", "own", "blocks"] as const;
type Key = typeof KEYS[number];

interface Row {
  module: Module;
  path: string;
  depth: number;
}

/** The number of rows that are open at first. */
const FIRST_ROWS = 16;
/** The columns in addition to that of names. */
const COLUMNS: readonly { name: string; kind?: string; key?: Key; cell: (of: Module, whole: number) => Child }[] = [
  { name: "Class", cell: (of) => of.class ?? "" },
  { name: "With its parts", kind: "number", key: "bytes", cell: (of) => figure(of.bytes) },
  { name: "Share", kind: "number", cell: (of, whole) => percent(of.bytes, whole) },
  { name: "Its own", kind: "number", key: "own", cell: (of) => of.more ? "" : figure(of.own) },
  { name: "Blocks", kind: "number", key: "blocks", cell: (of) => count(of.blocks) },
];

const sorting = { key: "bytes" as Key, up: false };
let opened = new Set<string>(), shown: Module | null = null, at = 0;

function partsOf(of: Module): Module[] {
  const by = (a: Module, b: Module) => compare(a[sorting.key], b[sorting.key]) * (sorting.up ? 1 : -1);
  const [single, rest] = [of.parts?.filter((part) => !part.more) ?? [], of.parts?.filter((part) => part.more) ?? []];
  return [...single.sort(by), ...rest];
}

function pathOf(parent: string, of: Module): string {
  return `${parent}\n${of.name}`;
}

/** The visible rows below a module. */
function rowsOf(of: Module, path = "", depth = 0): Row[] {
  return partsOf(of).flatMap((module): Row[] => {
    const own = pathOf(path, module);
    return [{ module, path: own, depth }, ...opened.has(own) ? rowsOf(module, own, depth + 1) : []];
  });
}

/** Opens the largest modules as long as their parts fit. */
function openLargest(root: Module): void {
  opened = new Set();
  const queue = rowsOf(root);
  let rows = queue.length;
  for (let next = queue.shift(); next; next = queue.shift()) {
    const parts = next.module.parts?.length ?? 0;
    if (!parts || rows + parts > FIRST_ROWS) continue;
    rows += parts;
    opened.add(next.path);
    queue.push(...rowsOf(next.module, next.path, next.depth + 1));
    queue.sort((a, b) => b.module.bytes - a.module.bytes);
  }
}

function openAll(root: Module): void {
  const visit = (of: Module, path: string) => {
    for (const part of of.parts ?? []) {
      if (!part.parts?.length) continue;
      opened.add(pathOf(path, part));
      visit(part, pathOf(path, part));
    }
  };
  visit(root, "");
}

function setOpen(path: string, isOpen: boolean): void {
  if (isOpen) opened.add(path);
  else opened.delete(path);
  drawModules();
  buttons().find((of) => of.dataset["path"] === path)?.focus();
}

function buttons(): HTMLElement[] {
  return [...document.querySelectorAll<HTMLElement>("#modules [data-path]")];
}

/**
 * Right opens a row or enters it, left closes it or leaves it, up and down move from row to row.
 */
function treeKey(event: KeyboardEvent): void {
  const all = buttons(), place = all.findIndex((of) => of === event.target), now = all[place];
  const path = now?.dataset["path"];
  if (path === undefined) return;
  const isOpen = opened.has(path);
  if (event.key === "ArrowDown" || event.key === "ArrowUp") all[place + (event.key === "ArrowDown" ? 1 : -1)]?.focus();
  else if (event.key === "ArrowRight" && !isOpen) setOpen(path, true);
  else if (event.key === "ArrowRight") all[place + 1]?.focus();
  else if (event.key === "ArrowLeft" && isOpen) setOpen(path, false);
  else if (event.key === "ArrowLeft") all.find((of) => of.dataset["path"] === path.slice(0, path.lastIndexOf("\n")))?.focus();
  else return;
  event.preventDefault();
}

/** The columns, without that of classes if no module has one. */
function columnsOf(root: Module): typeof COLUMNS {
  const hasClass = (of: Module): boolean => of.class !== undefined || (of.parts ?? []).some(hasClass);
  return hasClass(root) ? COLUMNS : COLUMNS.filter((of) => of.name !== "Class");
}

function rowOf({ module, path, depth }: Row, columns: typeof COLUMNS, whole: number): HTMLTableRowElement {
  const name = module.more ? many(module.more, "smaller module", "smaller modules") : module.name;
  const isOpen = opened.has(path);
  const label: Child = module.parts?.length
    ? make("button", { type: "button", class: "fold", "data-path": path, "aria-expanded": String(isOpen), text: name, on: { click: () => { setOpen(path, !isOpen); } } })
    : make("span", { class: "leaf", text: name });
  return make("tr", { "data-depth": depth }, [make("td", { class: "path", style: { "padding-left": `${8 + 18 * depth}px` } }, [label]),
    ...columns.map(({ kind, cell }) => make("td", { class: kind }, [cell(module, whole)]))]);
}

function sortBy(key: string): void {
  const to = KEYS.find((of) => of === key);
  if (!to) return;
  sorting.up = sorting.key === to ? !sorting.up : to === "name";
  sorting.key = to;
  drawModules();
  document.querySelector<HTMLElement>("#modules th[aria-sort=ascending] button, #modules th[aria-sort=descending] button")?.focus();
}

function isModule(of: Module): boolean {
  return !of.name.startsWith("(no module");
}

export function drawModules(): void {
  const { peak, end } = holdersNow(), held = at && end ? end : peak, root = held?.modules;
  byId("modules-section").hidden = !held || !peak;
  if (!held || !peak || !root) return;
  if (![peak, end].some((of) => of?.modules.parts?.some(isModule))) {
    fill("modules-bar");
    fill("modules", make("p", { text: "No torch.nn.Module ran, or none is known." }));
    return;
  }
  if (shown !== root) {
    shown = root;
    openLargest(root);
  }
  const open = (id: string, text: string, does: () => void) => make("button", { type: "button", id, text, on: { click: () => {
    does();
    drawModules();
    byId(id).focus();
  } } });
  fill("modules-bar",
    end && options("modules-at", "Moment", ["at the peak", "at the end"], at, (index) => {
      at = index;
      drawModules();
      byId("modules-at").focus();
    }),
    open("modules-open", "Open all", () => { openAll(root); }), open("modules-close", "Close all", () => { opened.clear(); }));
  const columns = columnsOf(root), heads = [{ name: "Module", kind: "path", key: "name" }, ...columns].map((head) => headCell(head, { ...sorting, by: sortBy }));
  fill("modules", moments(peak, end), make("table", { on: { keydown: treeKey } }, [
    make("caption", { text: `${device().title}, ${levelNow()}, at the ${held === peak ? "peak" : "end"}${ofRun()}; each module with what its parts hold` }),
    make("thead", {}, [make("tr", {}, heads)]),
    make("tbody", {}, rowsOf(root).map((row) => rowOf(row, columns, root.bytes))),
    make("tfoot", {}, [make("tr", {}, [make("td", { text: "together" }), ...columns.map(({ name, kind, cell }) =>
      make("td", { class: kind }, [name === "Its own" ? "" : cell(root, root.bytes)]))])]),
  ]));
}
