// The rank that is pinned: its figures, its course beside its peers', what makes it differ.

function fact(name, value, note, kind) {
  return make("div", { class: kind }, [make("span", { text: name }), value, note && make("span", { text: note })]);
}

function drawPinned() {
  const index = state.pinned, section = document.getElementById("pinned-section");
  section.hidden = index < 0;
  if (index < 0) return;
  const ranks = data.ranks, peers = data.groups[groupOf[index]].ranks;
  const differs = outlying.has(ranks.rank[index]);
  document.getElementById("pinned-head").textContent = `Rank ${ranks.rank[index]}` + (differs ? " differs from its peers" : "");
  const facts = PARTS.map(([key, name], part) => {
    const median = middle(peers.map((of) => peaks(part)[of]));
    return fact(`most of ${name}`, bytes(ranks[key][index]), peers.length > 1 ? `peers' median ${bytes(median)}` : "");
  });
  for (const [key, name] of [["nccl", "NCCL"], ["symmetric", "symmetric memory"]]) {
    if (ranks[key].some((of) => of > 0)) facts.push(fact(name, bytes(ranks[key][index])));
  }
  if (ranks.unexplained[index] !== null) facts.push(fact("unexplained by NVML's last reading", bytes(ranks.unexplained[index])));
  facts.push(fact("ended", ENDED[ranks.ended[index]] || "in an orderly way", `${timeFrom(ranks.ended_ns[index])}, ${clock(ranks.ended_ns[index])}`));
  if (ranks.wanted[index] !== undefined) facts.push(fact("could not be allocated", bytes(ranks.wanted[index])));
  facts.push(fact("steps", count(ranks.steps[index])));
  const where = [host(index), ranks.device[index] === null ? "" : "GPU " + ranks.device[index], place(index)].filter(Boolean);
  facts.push(fact("where", where.join(", ") || "unknown", `process ${ranks.pid[index]}`));
  facts.push(fact("capture", ranks.file[index], ranks.partial.includes(index) ? "not exact" : "", "long"));
  const told = data.outliers.filter((of) => of.rank === ranks.rank[index]);
  const table = told.length > 0 && make("div", { class: "wide" }, [differences(told)]);
  fill("pinned", make("div", { class: "facts" }, facts), courseChart(index, peers.length), table);
}

function timeFrom(nanos) {
  return tickText(nanos, timeStep(data.column_ns * data.columns) / 100);
}

// What one rank held over time, in front of what its peers did.
function courseChart(index, peerCount) {
  const part = state.part, over = peersOver(part, groupOf[index]), wide = Math.max(320, document.querySelector("main").clientWidth), high = 150, left = 70, columns = data.columns;
  if (!columns) return null;
  const most = Math.max(1, cellBytes(part, Math.max(...over.most)));
  const x = (column) => (left + column / columns * (wide - left - 12)).toFixed(1);
  const y = (value) => (10 + (1 - Math.max(value - 1, 0) * data.units[part] / most) * high).toFixed(1);
  const line = (of) => {
    let path = "", runs = false;
    for (let column = 0; column < columns; column++) {
      const value = of(column);
      path += value === 0 ? "" : (runs ? `V${y(value)}` : `M${x(column)} ${y(value)}`) + `H${x(column + 1)}`;
      runs = value !== 0;
    }
    return path;
  };
  let range = "";
  for (let column = 0; column < columns; column++) {
    if (over.most[column]) range += `M${x(column)} ${y(over.most[column])}H${x(column + 1)}V${y(over.least[column])}H${x(column)}Z`;
  }
  const parts = [];
  for (let tick = 0, step = byteStep(most) * 2; tick <= most; tick += step) {
    const at = (10 + (1 - tick / most) * high).toFixed(1);
    parts.push(draw("path", { class: "grid", d: `M${left} ${at}H${wide - 12}` }),
      draw("text", { x: left - 8, y: Number(at) + 4, "text-anchor": "end", text: bytes(tick) }));
  }
  if (peerCount > 1) {
    parts.push(draw("path", { style: { fill: "var(--range)" }, d: range }));
    parts.push(draw("path", { fill: "none", class: "axis", "stroke-dasharray": "4 3", d: line((column) => over.median[column]) }));
  }
  parts.push(draw("path", { id: "course", fill: "none", style: { stroke: "var(--held)", "stroke-width": 2 }, d: line((column) => cell(part, index, column)) }));
  const span = data.column_ns * columns, step = timeStep(span) * (wide < 600 ? 2 : 1);
  for (let tick = 0; tick <= span; tick += step) {
    const at = x(tick / data.column_ns);
    parts.push(draw("path", { class: "axis", d: `M${at} ${high + 10}v4` }));
    if (Number(at) < wide - 30) parts.push(draw("text", { x: at, y: high + 27, "text-anchor": "middle", text: tickText(tick, step) }));
  }
  const name = PARTS[part][1], label = `Rank ${data.ranks.rank[index]}: ${name} over time`;
  return make("div", {}, [
    draw("svg", { viewBox: `0 0 ${wide} ${high + 32}`, role: "img", "aria-label": label }, parts),
    make("ul", { class: "legend" }, [
      make("li", {}, [make("span", { class: "swatch", style: { background: "var(--held)" } }), `rank ${data.ranks.rank[index]}, ${name}`]),
      peerCount > 1 && make("li", {}, [make("span", { class: "swatch", style: { background: "var(--range)" } }), `from the least to the most of ${count(peerCount)} peers; ┄ their median`]),
    ]),
  ]);
}

const EXPLAIN = { tensors: ["line", "category", "module"], cache: ["pool"], nccl: ["nccl", "symmetric"], outside: ["outside"], unexplained: [] };

// By what ranks differ, each figure with its parts.
function differences(told) {
  const rows = told.flatMap((of) => [
    make("tr", {}, [signed(of.off_bytes), bytes(of.bytes), bytes(of.peers.median)]
      .map((text) => make("td", { class: "number strong", text }))
      .concat(make("td", { class: "strong what", text: `${of.word}, of ${many(of.peer_count, "peer", "peers")}${since(of.since)}` }))),
    ...of.differences.map((row, at) => [row, of.texts[at]]).filter(([row]) => EXPLAIN[of.metric].includes(row.of)).map(([row, text]) =>
      make("tr", {}, [signed(row.bytes - row.median_bytes), bytes(row.bytes), bytes(row.median_bytes)]
        .map((of) => make("td", { class: "number", text: of }))
        .concat(make("td", { class: "under" }, [nameOf(row), text && make("code", { text })])))),
  ]);
  const heads = ["more", "it has", "peers have", ""].map((text, at) => make("th", { scope: "col", class: at < 3 ? "number" : undefined, text }));
  return make("table", { class: "differences" }, [make("thead", {}, [make("tr", {}, heads)]), make("tbody", {}, rows)]);
}

function nameOf(row) {
  if (["category", "module"].includes(row.of)) return `${row.of}: ${row.name}`;
  return row.of === "symmetric" ? row.name + " (symmetric memory)" : row.name;
}

function since(of) {
  if (!of) return "";
  if (of.last_step === 1) return ", from the first step";
  if (of.first_step === 1) return `, since step ${count(of.last_step)} or before`;
  return `, since step ${count(of.first_step)}` + (of.first_step === of.last_step ? "" : ` to ${count(of.last_step)}`);
}
