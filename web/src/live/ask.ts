// Requests about past points in time.

import { many } from "../lib/format";
import type { Answer, Moment } from "./data";
import { query } from "./state";

/** Identifies this page among the waiting clients. */
const CLIENT = Array.from(crypto.getRandomValues(new Uint8Array(8)), (byte) => byte.toString(16).padStart(2, "0")).join("");
/** Milliseconds between requests. */
const AGAIN = 200;

let turn = 0;

/** Cancels the current request, if there is one. */
export function giveUp(): void {
  turn++;
}

async function answerTo(asked: URLSearchParams): Promise<Answer> {
  try {
    const answer = await fetch(`moment?${asked}`);
    if (!answer.ok) return { state: "refused", why: (await answer.text()).trim() };
    return (await answer.json()) as Answer;
  } catch {
    return { state: "refused", why: "no connection" };
  }
}

/**
 * Repeats the request until its answer is available. A newer request ends an older one: the answer is then null, as
 * it is after an error.
 */
export async function ask(at: string, want: string, choices: Record<string, string>, say: (text: string) => void): Promise<Moment | null> {
  const own = ++turn;
  const asked = query();
  for (const [name, value] of Object.entries({ client: CLIENT, at, want, ...choices })) asked.set(name, value);
  for (;;) {
    const told = await answerTo(asked);
    if (own !== turn) return null;
    switch (told.state) {
      case "done":
        say("");
        return told;
      case "refused":
        say(told.why);
        return null;
      case "waiting":
        say(`waits: ${many(told.before, "reader is", "readers are")} before`);
        break;
      case "reading":
        say(`reading the capture${told.read?.[1] ? ` ${Math.floor((told.read[0] / told.read[1]) * 100)} %` : ""}`);
    }
    await new Promise((done) => setTimeout(done, AGAIN));
  }
}
