// Links that set the page's moment, and go to the chart that shows it.

import { byId, make } from "../lib/dom";
import { data } from "./state";

/** Whether an event is in the part of the run that the page is of. */
export function isInPage(seq: number): boolean {
  const [begin, end] = data.events;
  return seq >= (begin ?? 0) && seq <= (end ?? Infinity);
}

/** A link to the moment just after an event; `at`: its name in links, if it has one. Plain text where the page is of another part of the run. */
export function momentLink(text: string, seq: number, device: number | null, at = String(seq)): HTMLElement {
  if (!isInPage(seq)) return make("span", { text, title: "not in the part of the run that this page is of" });
  const of = new URLSearchParams({ at });
  if (data.devices.length > 1) of.set("device", String(device ?? "none"));
  return make("a", { href: `#${of.toString()}`, class: "moment", text, on: { click: () => {
    const head = byId("timeline-head");
    // The address changes after this; the page follows it.
    setTimeout(() => {
      head.scrollIntoView();
      head.focus({ preventScroll: true });
    });
  } } });
}
