// The page on paper: light colours, and what can be opened is open.

import { tell } from "./state";

/** Details that were closed before printing. */
let closed: HTMLDetailsElement[] = [];

function print(isOnPaper: boolean): void {
  const root = document.documentElement;
  if (root.classList.contains("printing") === isOnPaper) return;
  root.classList.toggle("printing", isOnPaper);
  if (isOnPaper) closed = [...document.querySelectorAll("details")].filter((of) => !of.open);
  for (const of of closed) of.open = isOnPaper;
  // Canvases have the colours that the style had when they were drawn.
  tell("pinned");
  for (const canvas of document.querySelectorAll("main canvas")) if (canvas instanceof HTMLCanvasElement) flatten(canvas);
}

/** What is drawn while a page is made ready for paper is kept as drawing commands, and paper has none that clear. */
function flatten(canvas: HTMLCanvasElement): void {
  const context = canvas.getContext("2d");
  if (canvas.width && canvas.height) context?.putImageData(context.getImageData(0, 0, canvas.width, canvas.height), 0, 0);
}

export function startPrint(): void {
  addEventListener("beforeprint", () => { print(true); });
  const paper = matchMedia("print");
  // A page may still have the style of paper when it has been printed: it changes back with the style.
  addEventListener("afterprint", () => { print(paper.matches); });
  paper.addEventListener("change", ({ matches }) => { print(matches); });
}
