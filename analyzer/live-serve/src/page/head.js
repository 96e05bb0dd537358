// The program's state, its devices, and its failures.

// A figure, with its bytes to the last one.
function figure(value) {
  return make("span", { text: bytes(value), title: many(value, "byte", "bytes"), "data-bytes": value });
}

function stateWord(now) {
  if (now.state === "reading") return `reading ${bytes(now.read[0])} of ${bytes(now.read[1])}`;
  if (now.state === "ended") return `ended at ${time(now.ended)}`;
  if (now.state === "killed") return `ended without saying so, after ${time(now.ended)}`;
  return now.state === "stopped" ? `stopped: ${now.why}` : "running";
}

view.draw.now = () => {
  const now = shown.now;
  const command = now.command || "process " + now.pid;
  document.getElementById("command").textContent = command;
  document.title = "GPU memory, live: " + command;
  const more = [`${time(now.time)}, event ${count(now.seq)}`];
  if (now.steps) more.push(many(now.steps, "step", "steps"));
  if (now.phase) more.push(now.phase);
  more.push("pid " + now.pid);
  const bad = ["killed", "stopped"].includes(now.state);
  fill("state", make("strong", { class: bad ? "bad" : undefined, "data-state": now.state, text: stateWord(now) }), " · " + more.join(" · "));
  drawDevices(now);
  drawFailures(now);
};

function simpleTable(heads, rows) {
  return make("table", {}, [
    make("thead", {}, [make("tr", {}, heads.map(([text, kind]) => make("th", { scope: "col", class: kind, text })))]),
    make("tbody", {}, rows.map((cells) => make("tr", {}, cells.map((of, index) => make("td", { class: heads[index][1] }, [of]))))),
  ]);
}

function drawDevices(now) {
  const heads = [["GPU"], ["process", "number"], ["of the card", "number"], ["tensors", "number"], ["at the peak", "number"],
    ["from CUDA", "number"], ["at the peak", "number"], ["PyTorch holds", "number"], ["NVML, this process", "number"]];
  const known = (value) => (value === null ? make("span", { class: "faint", text: "not known" }) : figure(value));
  const rows = now.devices.map((on) => {
    const name = make("span", { text: `GPU ${on.device}`, title: on.name || undefined });
    return [name, figure(on.process), known(on.total), figure(on.tensor), figure(on.peak_tensor), figure(on.driver), figure(on.peak_driver),
      known(on.reserved), known(on.nvml)];
  });
  fill("devices", rows.length ? simpleTable(heads, rows) : make("p", { text: "No GPU memory was allocated yet." }));
  view.draw.choices();
}

function drawFailures(now) {
  document.getElementById("failures-section").hidden = !now.failure_count;
  if (!now.failure_count) return;
  const text = (of) => make("span", { text: of });
  const rows = now.failures.map((of) => [text(time(of.time)), text(count(of.seq)), figure(of.bytes), text("GPU " + of.device),
    make("span", { class: of.is_exception ? "failed" : undefined,
      text: of.is_exception ? "the program was told" : "answered by the framework's allocator" }),
    make("button", { type: "button", text: "Go there", onclick: () => goTo("event:" + of.seq, "the failure") }),
    make("button", { type: "button", text: "Why", onclick: () => openCause(of.seq) })]);
  const newestOf = now.failure_count > rows.length ? `, the newest ${rows.length} of them` : "";
  fill("failures", make("p", { text: many(now.failure_count, "allocation", "allocations") + " found no memory" + newestOf }),
    simpleTable([["time"], ["event", "number"], ["asked for", "number"], ["on"], ["what came of it"], [""], [""]], rows));
}
