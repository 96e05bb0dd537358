// The frames of the shown point in time, as a tree with the bytes below each.

import { many } from "../lib/format";
import { compare, item, sumOf } from "../lib/item";
import { data, level } from "./state";

/** Kinds of frames, numbered as in analyzer/src/stacks/kind.rs. */
export const FrameKind = { python: 0, library: 1, native: 2, dispatch: 3, backward: 4, optimizer: 5, note: 6, group: 7 } as const;

/** The style's name of each kind's colour, and its label. */
export const KINDS = ["your Python", "installed Python", "native", "dispatch", "backward", "optimizer", "not known", "GPU or module"];

export interface Frame {
  /** 0: the root; -1: stacks that are not in the page. */
  number: number;
  name: string;
  kind: number;
  /** Its line of source, if known. */
  text: string;
  bytes: number;
  blocks: number;
  parent: Frame | null;
  children: Frame[];
}

function newFrame(number: number, name: string, kind: number, text: string, parent: Frame | null, bytes = 0, blocks = 0): Frame {
  const frame = { number, name, kind, text, bytes, blocks, parent, children: [] };
  parent?.children.push(frame);
  return frame;
}

/** The tree of frames. Dispatch frames are folded into their caller unless `all` is set. */
export function flameTree(all: boolean): Frame {
  const now = level(), { tree, names, stacks, kinds, text_of, texts } = data.stacks;
  const root = newFrame(0, "all", FrameKind.group, "", null, now?.bytes);
  if (!now) return root;
  const frames = new Map([[0, root]]);
  // Frames with the same name below the same caller are merged if the frames between them are
  // folded.
  const folded = new Map<string, Frame>();
  const frameOf = (number: number): Frame => {
    let found = frames.get(number);
    if (!found) {
      const [parent, name] = item(tree, number - 1), above = frameOf(parent), kind = item(kinds, name);
      if (kind === FrameKind.dispatch && !all) {
        found = above;
      } else {
        const key = `${above.number} ${name}`;
        found = folded.get(key) ?? newFrame(number, item(names, name), kind, texts[item(text_of, name) - 1] ?? "", above);
        folded.set(key, found);
      }
      frames.set(number, found);
    }
    return found;
  };
  for (const [stack, size, blocks] of now.stacks) {
    for (let at: Frame | null = frameOf(item(stacks, stack)[0] + 1); at; at = at.parent) {
      if (at !== root) at.bytes += size;
      at.blocks += blocks;
    }
  }
  const [others, size, blocks] = now.others;
  root.blocks += blocks;
  if (others) newFrame(-1, `(${many(others, "other stack", "other stacks")}, not in this page)`, FrameKind.note, "", root, size, blocks);
  const sort = (of: Frame) => {
    of.children.sort((a, b) => compare(a.name, b.name));
    of.children.forEach(sort);
  };
  sort(root);
  return root;
}

export function findFrame(of: Frame, number: number): Frame | null {
  if (of.number === number) return of;
  for (const child of of.children) {
    const found = findFrame(child, number);
    if (found) return found;
  }
  return null;
}

/** Whether a frame's name contains the search text, if there is one. */
export function matches(frame: Frame, wanted: string): boolean {
  return wanted !== "" && `${frame.name}: ${frame.text}`.toLowerCase().includes(wanted);
}

/** Bytes below the outermost frames that match. */
export function matchedBytes(frame: Frame, wanted: string): number {
  if (matches(frame, wanted)) return frame.bytes;
  return sumOf(frame.children, (child) => matchedBytes(child, wanted));
}
