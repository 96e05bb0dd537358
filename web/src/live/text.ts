// The page's last section, as lines of text: the account, the stacks of a row, or the cause of a failure.

import { byId, fill, make, say } from "../lib/dom";
import { ask, giveUp } from "./ask";
import { choice, shown, view } from "./state";

async function openText(at: string, want: string, choices: Record<string, string>): Promise<void> {
  byId("text-section").hidden = false;
  say("text-head", "Details");
  fill("text");
  byId("text-head").focus();
  const told = await ask(at, want, choices, (text) => { say("text-state", text); });
  if (!told?.page) return;
  say("text-head", told.page.title);
  fill("text", ...told.page.lines.map(([kind, text]) => make("span", { class: `line-${kind}`, text: `${text}\n` })));
}

function momentShown(seq: number): string {
  return view.past ? view.past.at : `event:${seq}`;
}

function openAccount(): void {
  if (shown.now) void openText(momentShown(shown.now.seq), "account", choice);
}

/** The level is that of the table that has the row. */
export function openRow(key: string): void {
  const table = shown.table;
  if (table) void openText(momentShown(table.seq), `row:${key}`, { ...choice, level: table.level });
}

export function openCause(seq: number): void {
  void openText(`event:${seq}`, `cause:${seq}`, choice);
}

function closeText(): void {
  giveUp();
  byId("text-section").hidden = true;
  byId("table-head").focus();
}

export function startText(): void {
  byId("account").addEventListener("click", openAccount);
  byId("close-text").addEventListener("click", closeText);
  addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !byId("text-section").hidden) closeText();
  });
}
