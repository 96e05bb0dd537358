// The stream of figures: server-sent events.

import { byId } from "../lib/dom";
import { KINDS, choice, newest, query, redraw, show } from "./state";

let source: EventSource | null = null;

function sayConnection(text: string): void {
  const place = byId("connection");
  if (place.textContent !== text) place.textContent = text;
}

/** Requests the chosen data. After an interruption the browser reconnects by itself. */
export function connect(): void {
  source?.close();
  const asked = query();
  for (const [name, value] of Object.entries(choice)) asked.set(name, value);
  const own = source = new EventSource(`events?${asked}`);
  for (const kind of KINDS) {
    own.addEventListener(kind, (event: MessageEvent<string>) => {
      Object.assign(newest, { [kind]: JSON.parse(event.data) as unknown });
      sayConnection("");
      show(kind);
      if (kind === "now") redraw("place");
    });
  }
  own.addEventListener("error", () => {
    if (source !== own) return;
    sayConnection(own.readyState === EventSource.CLOSED
      ? "The server refused the connection: 16 readers are already connected, or another server uses the port. Open the URL that the server printed."
      : "No connection: gpumem-analyze or the tunnel to it has ended. The figures are the last ones received.");
  });
}
