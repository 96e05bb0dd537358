// The calls of a stack, without those that only forward a call.

import { item } from "../lib/item";
import { FrameKind } from "./frames";
import { data } from "./state";

/** The newest call first: name, and the text of its line if known. */
export function calls(stack: number): [name: string, text: string | undefined][] {
  const { stacks, tree, names, kinds, text_of, texts } = data.stacks, found: [string, string | undefined][] = [];
  if (stack < 0) return found;
  for (let at = item(stacks, stack)[0] + 1; at > 0;) {
    const [above, name] = item(tree, at - 1);
    if (item(kinds, name) !== FrameKind.dispatch) found.push([item(names, name), texts[item(text_of, name) - 1]]);
    at = above;
  }
  return found;
}

/** The most calls in a tooltip. */
const SAID = 5;

/** The newest calls in one line; empty if the stack is not in the page. */
export function callWords(stack: number): string {
  const names = calls(stack).map(([name]) => name);
  return names.slice(0, SAID).join(" ← ") + (names.length > SAID ? " ← …" : "");
}
