// Links to the existing parts of the page.

import { fill, make } from "../lib/dom";

export function drawContents(): void {
  const sections = [...document.querySelectorAll<HTMLElement>("main > section:not([hidden])")];
  const heads = sections.map((of) => of.querySelector("h2")).filter((head) => head !== null);
  fill("contents", make("ul", {}, heads.map((head) => make("li", {}, [make("a", { href: `#${head.id}`, text: head.textContent })]))));
}
