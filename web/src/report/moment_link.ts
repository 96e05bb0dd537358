// Links that set the page's point in time, and scroll to the chart.

import { byId, make } from "../lib/dom";
import { data } from "./state";

/** Whether an event is in the part of the run that the page covers. */
export function isInPage(seq: number): boolean {
  const [begin, end] = data.events;
  return seq >= (begin ?? 0) && seq <= (end ?? Infinity);
}

/**
 * A link to the point in time just after an event; `at`: its name in links, if it has one. Plain text if the event
 * is outside the page's part of the run.
 */
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
