// The head of the page: what ran, what its account claims, why memory failed.

import { fill, make, say } from "../lib/dom";
import { bytes, many } from "../lib/format";
import type { Cause, CategoryBytes } from "./data";
import { data } from "./state";

export function drawHead(): void {
  say("file", data.file);
  say("ran", data.ran);
  const [claim = "", ...more] = data.account;
  const missing = data.missing.length > 0 &&
    make("ul", { "aria-label": "What is missing" }, data.missing.map((line) => make("li", { class: "not-exact", text: line })));
  fill("account", make("p", { class: data.exact ? "exact" : "not-exact", text: claim }), missing, failed(), data.cause && why(data.cause),
    ...more.map((line) => make("p", { class: "faint", text: line })));
}

function failed(): HTMLElement | null {
  if (!data.failure_count) return null;
  const retries = data.retries
    ? `; ${many(data.retries, "retry", "retries")} by PyTorch's allocator besides, which then had the memory` : "";
  return make("p", { class: "failed", text: `${many(data.failure_count, "allocation", "allocations")} failed for want of memory${retries}` });
}

function why(cause: Cause): HTMLElement {
  const held = cause.owners.map((of) => `${bytes(of.bytes)} ${of.line} ${of.function}`.trim() + purpose(of.categories ?? [])).join(", ");
  return make("p", { id: "cause" }, [make("strong", { text: "Cause: " }), cause.what, make("br"),
    make("strong", { text: "To change: " }), cause.advice, make("br"), make("strong", { text: "Held then: " }), held]);
}

/** What most of a line's tensors are for. */
function purpose([most, ...others]: readonly CategoryBytes[]): string {
  return most ? ` (${others.length ? "mostly " : ""}${most.category})` : "";
}
