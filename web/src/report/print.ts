// The page on paper: light colours, and all details open.

import { tell } from "./state";

/** Details that were closed before printing. */
let closed: HTMLDetailsElement[] = [];

function print(isOnPaper: boolean): void {
  const root = document.documentElement;
  if (root.classList.contains("printing") === isOnPaper) return;
  root.classList.toggle("printing", isOnPaper);
  if (isOnPaper) closed = [...document.querySelectorAll("details")].filter((of) => !of.open);
  for (const of of closed) of.open = isOnPaper;
  // Canvases keep the colours of the style at the time of drawing.
  tell("pinned");
  for (const canvas of document.querySelectorAll("main canvas")) if (canvas instanceof HTMLCanvasElement) flatten(canvas);
}

/** Canvases are stored for paper as drawing commands, which cannot be cleared. */
function flatten(canvas: HTMLCanvasElement): void {
  const context = canvas.getContext("2d");
  if (canvas.width && canvas.height) context?.putImageData(context.getImageData(0, 0, canvas.width, canvas.height), 0, 0);
}

export function startPrint(): void {
  addEventListener("beforeprint", () => { print(true); });
  const paper = matchMedia("print");
  // A page may still have the style of paper after printing: the colours change back with the style.
  addEventListener("afterprint", () => { print(paper.matches); });
  paper.addEventListener("change", ({ matches }) => { print(matches); });
}
