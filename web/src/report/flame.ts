// The flamegraph of the shown point in time: the oldest frames at the top, or at the bottom as flames.

import { byId, fill, make, say, valueOf } from "../lib/dom";
import { bytes, many, percent } from "../lib/format";
import { item } from "../lib/item";
import { type Frame, KINDS, findFrame, flameTree, matchedBytes, matches } from "./frames";
import { jump } from "./jumps";
import { state, tell } from "./state";

const ROW = 20, NARROWEST = 0.0012;
/** Narrower boxes have no text: it would be illegible, and each box that cuts text costs time in every frame. */
const LEGIBLE = 24;
const NOTHING: Frame = { number: 0, name: "all", kind: 7, text: "", bytes: 0, blocks: 0, parent: null, children: [] };
let root = NOTHING, wanted = "", focused = 0, room = 0;

/** The style's name of a kind's colour. */
function frameColour(kind: number): string {
  return `var(--frame-${item(KINDS, kind).toLowerCase().replace(/ /g, "-")})`;
}

function boxOf(frame: Frame, left: number, width: number, depth: number, isAbove: boolean): HTMLDivElement {
  const isNarrow = width * room < LEGIBLE;
  const name = frame.text ? `${frame.name}: ${frame.text}` : frame.name;
  const label = `${name}: ${bytes(frame.bytes)} (${many(frame.bytes, "byte", "bytes")}), ${percent(frame.bytes, root.bytes)}, ${many(frame.blocks, "block", "blocks")}`;
  return make("div", { role: "treeitem", "aria-level": depth + 1, "aria-label": label, title: label,
    tabindex: frame.number === focused ? 0 : -1, "data-frame": frame.number,
    "aria-expanded": frame.children.length ? "true" : undefined,
    class: `${matches(frame, wanted) ? "found " : ""}${isAbove ? "above " : ""}${isNarrow ? "narrow" : ""}`.trim() || undefined, text: isNarrow ? undefined : name,
    style: { left: `${left * 100}%`, width: `${width * 100}%`, top: `${depth * ROW}px`, background: frameColour(frame.kind) } });
}

export function drawFlame(): void {
  root = flameTree(state.allFrames);
  room = byId("flame").clientWidth;
  const zoomed = findFrame(root, state.frame) ?? root;
  state.frame = zoomed.number;
  const path: Frame[] = [];
  for (let at = zoomed.parent; at; at = at.parent) path.unshift(at);
  if (![...path, zoomed].some((frame) => frame.number === focused)) focused = zoomed.number;
  const boxes = path.map((frame, depth) => boxOf(frame, 0, 1, depth, true));
  let deepest = path.length;
  const below = (frame: Frame, left: number, width: number, depth: number) => {
    boxes.push(boxOf(frame, left, width, depth, false));
    deepest = Math.max(deepest, depth);
    let at = left;
    for (const child of frame.children) {
      const share = frame.bytes > 0 ? (child.bytes / frame.bytes) * width : 0;
      if (share >= NARROWEST) below(child, at, share, depth + 1);
      at += share;
    }
  };
  below(zoomed, 0, 1, path.length);
  if (state.flames) for (const box of boxes) box.style.top = `${deepest * ROW - Number.parseFloat(box.style.top)}px`;
  byId("flames", HTMLInputElement).checked = state.flames;
  byId("all-frames", HTMLInputElement).checked = state.allFrames;
  const zoomedBox = boxes[path.length];
  if (zoomedBox && !boxes.some((box) => box.tabIndex === 0)) zoomedBox.tabIndex = 0;
  fill("flame", make("div", { role: "tree", "aria-label": `Calls that own the memory, the oldest ${state.flames ? "at the foot" : "first"}`,
    style: { height: `${(deepest + 1) * ROW}px` }, on: { click: flameClick, keydown: flameKey } }, boxes));
  sayFlame(zoomed);
}

function sayFlame(zoomed: Frame): void {
  let said = zoomed === root ? "" : `Enlarged: ${zoomed.name}, ${bytes(zoomed.bytes)}. `;
  if (wanted) {
    const found = matchedBytes(root, wanted);
    said += `${bytes(found)} (${percent(found, root.bytes)}) in frames with "${wanted}".`;
  }
  say("flame-said", said);
  fill("flame-kinds", ...kindsOf(root).map((kind) =>
    make("li", {}, [make("span", { class: "swatch", style: { background: frameColour(kind) } }), item(KINDS, kind)])));
  byId("unzoom", HTMLButtonElement).disabled = zoomed === root;
}

/** The kinds of frames that a tree has below its root. */
function kindsOf(tree: Frame): number[] {
  const found = new Set<number>();
  const visit = (frame: Frame) => {
    for (const child of frame.children) {
      found.add(child.kind);
      visit(child);
    }
  };
  visit(tree);
  return [...found].sort((a, b) => a - b);
}

function zoom(number: number): void {
  if (number < 0) return;
  focused = number;
  jump(() => {
    state.frame = number;
    tell("frame");
  });
}

/** The number of the frame under an event. */
function frameAt(event: Event): number | undefined {
  const box = event.target instanceof Element ? event.target.closest<HTMLElement>("[data-frame]") : null;
  return box ? Number(box.dataset["frame"]) : undefined;
}

function flameClick(event: Event): void {
  const number = frameAt(event);
  if (number !== undefined) zoom(number);
}

function focusFrame(frame: Frame | null | undefined): void {
  const box = frame && document.querySelector<HTMLElement>(`#flame [data-frame="${frame.number}"]`);
  if (!box) return;
  for (const other of document.querySelectorAll<HTMLElement>("#flame [tabindex='0']")) other.tabIndex = -1;
  box.tabIndex = 0;
  focused = frame.number;
  box.focus();
}

function beside(frame: Frame, by: number): Frame | undefined {
  const all = frame.parent?.children ?? [];
  return all[all.indexOf(frame) + by];
}

function widest(frame: Frame): Frame | null {
  return frame.children.reduce<Frame | null>((best, of) => (!best || of.bytes > best.bytes ? of : best), null);
}

const MOVES: Record<string, (frame: Frame) => Frame | null | undefined> = {
  ArrowDown: widest,
  ArrowUp: (frame) => frame.parent,
  ArrowLeft: (frame) => beside(frame, -1),
  ArrowRight: (frame) => beside(frame, 1),
  Home: () => root,
};

function flameKey(event: KeyboardEvent): void {
  const number = frameAt(event);
  const frame = number === undefined ? null : findFrame(root, number);
  if (!frame) return;
  // Up and down follow the screen: callees of flames are above their caller.
  const turned: Record<string, string> = { ArrowUp: "ArrowDown", ArrowDown: "ArrowUp" };
  const move = MOVES[(state.flames && turned[event.key]) || event.key];
  if (move) {
    focusFrame(move(frame));
  } else if (["Enter", " ", "Escape"].includes(event.key)) {
    zoom(event.key === "Escape" ? 0 : frame.number);
    focusFrame(findFrame(root, state.frame));
  } else {
    return;
  }
  event.preventDefault();
}

/** Marks the frames that contain a text. */
export function searchFrames(text: string): void {
  const input = byId("flame-search", HTMLInputElement);
  if (input.value !== text) input.value = text;
  wanted = text.trim().toLowerCase();
  drawFlame();
}

export function startFlame(): void {
  const search = make("input", { type: "search", id: "flame-search", on: { input: (event) => { searchFrames(valueOf(event)); } } });
  fill("flame-bar", make("label", {}, ["Search frames", search]),
    make("label", {}, [make("input", { type: "checkbox", id: "all-frames", on: { change: (event) => {
      state.allFrames = event.currentTarget instanceof HTMLInputElement && event.currentTarget.checked;
      tell("frame");
    } } }), "Show dispatch and native frames"]),
    make("label", {}, [make("input", { type: "checkbox", id: "flames", on: { change: (event) => {
      state.flames = event.currentTarget instanceof HTMLInputElement && event.currentTarget.checked;
      tell("frame");
    } } }), "Flames: the oldest calls at the foot"]),
    make("button", { type: "button", id: "unzoom", text: "Show all", on: { click: () => { zoom(0); } } }),
    make("span", { class: "faint", text: "Click or Enter enlarges a frame; arrow keys go to callers, calls and neighbours; Escape shows all." }));
}
