// The page on paper: light colours, and what can be opened is open.

import { type Change, tell } from "./state";

/** Details that were closed before printing. */
let closed: HTMLDetailsElement[] = [];

function print(isOnPaper: boolean): void {
  const root = document.documentElement;
  if (root.classList.contains("printing") === isOnPaper) return;
  root.classList.toggle("printing", isOnPaper);
  if (isOnPaper) closed = [...document.querySelectorAll("details")].filter((of) => !of.open);
  for (const of of closed) of.open = isOnPaper;
  // What is drawn pixel by pixel has the colours of the style when it is drawn.
  for (const what of ["view", "pinned"] satisfies Change[]) tell(what);
}

export function startPrint(): void {
  addEventListener("beforeprint", () => { print(true); });
  addEventListener("afterprint", () => { print(false); });
  matchMedia("print").addEventListener("change", ({ matches }) => { print(matches); });
}
