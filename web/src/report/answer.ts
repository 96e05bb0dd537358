// The first section: whether and why memory ran out, the owners of memory at the peak, and whether the account is
// exact.

import { type Child, byId, fill, make, say } from "../lib/dom";
import { figure } from "../lib/figure";
import { bytes, count, many, percent } from "../lib/format";
import type { Cause } from "./data";
import { momentLink } from "./moment_link";
import type { CauseHolders, PeakAnswer } from "./sections_data";
import { data } from "./state";
import { type Cell, table } from "./tables";
import { atMoment, holders } from "./words";

export function drawAnswer(): void {
  say("file", data.file);
  say("ran", data.ran);
  const [claim = "", ...more] = data.account;
  const missing = data.missing.length > 0 &&
    make("ul", { "aria-label": "What is missing" }, data.missing.map((line) => make("li", { class: "not-exact", text: line })));
  fill("account", make("p", { id: "claim", class: data.exact ? "exact" : "not-exact", text: claim }), missing,
    ...more.map((line) => make("p", { class: "faint", text: line })));
  // As in the report, inexact figures are marked before all figures.
  if (!data.exact) byId("answer").before(byId("account"));
  fill("answer", ...failed(), data.cause && why(data.cause), data.cause?.holders && kept("kept", "at the failure", data.cause.holders), retries(),
    ...data.answer.peaks.flatMap((of) => [peak(of), !data.cause && of.holders && kept(`kept-${of.device}`, `after event ${count(of.holders[0])}`, of.holders[1])]), part());
}

/** The cause's figures may belong to another device than the peak's, so each names its device. */
function failed(): Child[] {
  const { failed, others, peaks } = data.answer;
  if (failed === null) return peaks.length ? [make("p", { id: "outcome", class: "exact", text: "No allocation failed because memory ran out." })] : [];
  const at = data.failures.find((of) => of.seq === data.cause?.seq);
  return [
    make("p", { id: "outcome", class: "failed" }, [make("strong", { text: "Out of memory: " }), failed, ". ",
      data.cause && momentLink("Show that moment", data.cause.seq, at?.device ?? null, "oom")]),
    others > 0 && make("p", {}, [`${many(others, "more allocation", "more allocations")} failed: `, make("a", { href: "#failures-head", text: "all that failed" })]),
  ];
}

function why(cause: Cause): HTMLElement {
  return make("p", { id: "cause" }, [make("strong", { text: "Cause: " }), cause.what, make("br"),
    ...(cause.advice === "" ? [] : [make("strong", { text: "To change: " }), cause.advice, make("br")]), make("strong", { text: "Held then: " }), ...holders(cause.owners),
    " of ", figure(cause.live), " live"]);
}

function kept(id: string, when: string, { rows, live, cut }: CauseHolders): HTMLElement {
  const rest = live - rows.reduce((sum, [, , held]) => sum + held, 0);
  const heads = [{ name: "Bytes", kind: "number" }, { name: "Share", kind: "number" }, { name: "Blocks", kind: "number" }, { name: "Holder" }, { name: "Where" }];
  const others: Cell[][] = rest > 0 ? [[figure(rest), percent(rest, live), "", "others, or no Python object", ""]] : [];
  return make("div", { id, class: "wide", role: "region", tabindex: "0", "aria-label": `Who kept the tensors ${when}` }, [
    table(`Who kept the tensors ${when}`, heads, [
      ...rows.map(([name, place, held, blocks]): Cell[] => [figure(held), percent(held, live), count(blocks), name, place]), ...others]),
    cut !== null && make("p", { class: "not-exact", text: `The search was not completed: ${cut}.` }),
  ]);
}

function retries(): Child {
  return data.retries > 0 && make("p", { id: "retries",
    text: `${many(data.retries, "retry", "retries")} by PyTorch's allocator: the driver refused the request, PyTorch freed its cache, and the request then succeeded.` });
}

function peak(of: PeakAnswer): HTMLElement {
  const { seq, time } = of, moment = seq !== null && time !== null ? { seq, time } : null;
  const own = data.devices.find((each) => each.device === of.device)?.peak?.[1];
  const at = moment ? [" at ", momentLink(atMoment(moment), moment.seq, of.device, own === moment.seq ? "peak" : undefined)] : [];
  const what = of.level === "tensor" ? " of tensors" : " of driver memory";
  return make("p", { class: "peak", "data-device": of.device }, [make("strong", { text: `GPU ${of.device} at its peak: ` }), figure(of.bytes),
    of.total === null ? "" : ` of ${bytes(of.total)}`, ...at, of.when, ". ", ...(of.owners.length
      ? [make("strong", { text: "Most of it: " }), ...holders(of.owners), ", of ", figure(of.live), what] : [])]);
}

function part(): Child {
  return data.part !== null && make("p", { id: "part", class: "not-exact",
    text: `This page covers a part of the run, ${data.part}. The text above covers the whole run, and so do the tables that are marked so.` });
}
