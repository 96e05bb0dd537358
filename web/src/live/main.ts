// The page of a capture whose program may still run.

import { offer } from "../lib/console";
import { byId } from "../lib/dom";
import { drawCourse } from "./chart";
import { drawChoices } from "./choices";
import { drawNow } from "./head";
import { drawPlace, openAtPeak, startPlace } from "./past";
import { choice, newest, on, shown, view } from "./state";
import { connect } from "./stream";
import { drawTable } from "./table";
import { startText } from "./text";

on("now", drawNow);
on("course", drawCourse);
on("table", () => { drawTable(); openAtPeak(); });
on("choices", drawChoices);
on("place", () => { drawPlace(); openAtPeak(); });
startPlace();
startText();
if (document.body.dataset["folder"]) {
  const all = byId("all");
  all.hidden = false;
  all.querySelector("a")?.setAttribute("href", `../${location.search}`);
}
offer({ choice, newest, shown, view });
drawChoices();
connect();
addEventListener("resize", () => { if (shown.course) drawCourse(); });
