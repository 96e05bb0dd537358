// Memory over time, which can be brushed.

const WIDTH = 1200, LEFT = 80, RIGHT = 12, TOP = 10, HIGH = 250;
const LIBRARIES = ["#cc79a7", "#8c6d31", "#c5b000", "#56b4e9", "#d55e00", "#7f5fb0", "#e69f00", "#009e73"];
const PHASES = [["backward", "#8e44ad"], ["optimizer", "#16a085"], ["zero_grad", "#f1a340"], ["another phase", "#7f8c8d"]];

function bandColours() {
  const own = { tensors: "var(--tensors)", cached: "var(--cached)", beyond: "var(--beyond)",
    unknown: "var(--unknown)", graph: "#44aa99", other_libraries: "#a6761d" };
  let library = 0;
  const category = (name) => `var(--${name.replace(" ", "-")})`;
  return device().chart.bands.map((band) => (band.category ? category(band.category) : own[band.kind]) || LIBRARIES[library++ % LIBRARIES.length]);
}

function across(at) {
  const [from, to] = state.view;
  return LEFT + (at - from) / Math.max(to - from, 1) * (WIDTH - LEFT - RIGHT);
}

function timeAt(x) {
  const [from, to] = state.view;
  const share = (x - LEFT) / (WIDTH - LEFT - RIGHT);
  return Math.round(from + Math.max(0, Math.min(1, share)) * (to - from));
}

// The points of the view, with the last one before it at its edge, and the newest held until its end.
function visible(points) {
  const [from, to] = state.view;
  const before = points.findLastIndex((point) => point[0] < from);
  const inside = points.filter((point) => point[0] >= from && point[0] <= to);
  if (before >= 0) inside.unshift([from, ...points[before].slice(1)]);
  if (inside.length) inside.push([to, ...inside[inside.length - 1].slice(1)]);
  return inside;
}

function stepPath(points, top, bottom) {
  if (!points.length) return "";
  const x = (point) => across(point[0]).toFixed(1);
  let path = "M" + x(points[0]) + " " + top(points[0]).toFixed(1);
  for (const point of points.slice(1)) path += "H" + x(point) + "V" + top(point).toFixed(1);
  if (!bottom) return path;
  const back = points.slice().reverse();
  path += "V" + bottom(back[0]).toFixed(1);
  for (let i = 1; i < back.length; i++) path += "V" + bottom(back[i]).toFixed(1) + "H" + x(back[i]);
  return path + "Z";
}

function drawChart() {
  const now = device(), chart = now.chart;
  const points = visible(chart.points);
  const sum = (point, bands) => point.slice(1, 1 + bands).reduce((a, b) => a + b, 0);
  const bands = chart.bands.length;
  const most = Math.max(1, ...points.map((point) => sum(point, bands)));
  const base = TOP + HIGH;
  const y = (value) => base - value / most * (HIGH - 8);
  const host = visible(chart.host), hostMost = Math.max(0, ...host.map((point) => point[1]));
  let height = base + 24;
  const parts = [];
  for (let tick = 0, step = byteStep(most); tick <= most; tick += step) {
    parts.push(draw("path", { class: "grid", d: `M${LEFT} ${y(tick).toFixed(1)}H${WIDTH - RIGHT}` }));
    parts.push(draw("text", { x: LEFT - 8, y: (y(tick) + 4).toFixed(1), "text-anchor": "end", text: bytes(tick) }));
  }
  const colours = bandColours();
  chart.bands.forEach((band, index) => {
    const path = stepPath(points, (point) => y(sum(point, index + 1)), (point) => y(sum(point, index)));
    parts.push(draw("path", { style: { fill: colours[index] }, d: path }, [draw("title", { text: band.name })]));
  });
  if (chart.nvml.length) {
    const path = stepPath(visible(chart.nvml).filter((point) => point[1] <= most * 1.04), (point) => y(point[1]));
    parts.push(draw("path", { fill: "none", class: "axis", "stroke-dasharray": "3 3", d: path },
      [draw("title", { text: "NVML, this process" })]));
  }
  const [from, to] = state.view, step = timeStep(to - from);
  for (let tick = Math.ceil(from / step) * step; tick <= to; tick += step) {
    const x = across(tick).toFixed(1);
    parts.push(draw("path", { class: "axis", d: `M${x} ${base}v4` }));
    parts.push(draw("text", { x, y: base + 17, "text-anchor": "middle", text: tickText(tick, step) }));
  }
  parts.push(draw("path", { class: "axis", d: `M${LEFT} ${base}H${WIDTH - RIGHT}` }));
  height = drawCourse(height, parts);
  if (hostMost > 0) {
    parts.push(draw("text", { x: LEFT, y: height + 14, text: "pinned host memory, at most " + bytes(hostMost) }));
    const foot = height + 62;
    const path = stepPath(host, (point) => foot - point[1] / hostMost * 40, () => foot);
    parts.push(draw("path", { style: { fill: "var(--host)" }, d: path }));
    height = foot + 8;
  }
  drawMarks(base, parts);
  const label = `${now.title}: memory over time, ${time(from)} to ${time(to)}, at most ${bytes(most)}`;
  const svg = draw("svg", { viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": label,
    onpointerdown: brushFrom }, parts);
  const legend = chart.bands.map((band, index) =>
    make("li", {}, [make("span", { class: "swatch", style: { background: colours[index] } }), band.name]));
  if (chart.nvml.length) legend.push(make("li", { text: "┄ NVML, this process" }));
  if (data.trains) {
    for (const [name, colour] of [...PHASES.slice(0, 3), ["forward", "var(--soft)"]]) {
      legend.push(make("li", {}, [make("span", { class: "swatch", style: { background: colour } }), name]));
    }
  }
  fill("chart", svg, make("ul", { class: "legend", "aria-label": "Colours" }, legend));
}

function drawCourse(top, parts) {
  const [from, to] = state.view, high = 12;
  if (data.trains) {
    parts.push(draw("text", { x: LEFT - 8, y: top + 10, "text-anchor": "end", text: "phases" }));
    parts.push(draw("rect", { x: LEFT, y: top, width: WIDTH - LEFT - RIGHT, height: high, style: { fill: "var(--soft)" } }));
    for (const row of data.course.phases.filter((of) => of[1] >= from && of[0] <= to)) {
      const x = Math.max(across(row[0]), LEFT), end = Math.min(across(row[1]), WIDTH - RIGHT);
      let bottom = top + high;
      PHASES.forEach(([name, colour], index) => {
        const tall = row[2 + index] / Math.max(row[1] - row[0], 1) * high;
        if (tall <= 0) return;
        bottom -= tall;
        parts.push(draw("rect", { x: x.toFixed(1), y: bottom.toFixed(1), width: Math.max(end - x, 0.5).toFixed(1),
          height: tall.toFixed(1), style: { fill: colour } }, [draw("title", { text: name })]));
      });
    }
    top += high + 4;
  }
  const steps = data.course.steps.filter(([at]) => at >= from && at <= to);
  if (steps.length) {
    parts.push(draw("text", { x: LEFT - 8, y: top + 14, "text-anchor": "end", text: "steps end" }));
    let free = LEFT + 14;
    for (const [at, number] of steps) {
      const x = across(at);
      if (x < free || x > WIDTH - RIGHT - 14) continue;
      free = x + 52;
      parts.push(draw("path", { class: "axis", d: `M${x.toFixed(1)} ${top}v4` }));
      parts.push(draw("text", { x: x.toFixed(1), y: top + 15, "text-anchor": "middle", text: count(number) }));
    }
    top += 22;
  }
  return top + 4;
}

// The chosen stretch, the moments that are kept, the one that is shown, failures.
function drawMarks(base, parts) {
  const [from, to] = state.view;
  const seen = (at) => at >= from && at <= to;
  if (!wholeRun()) {
    const x = Math.max(across(state.from), LEFT), end = Math.min(across(state.to), WIDTH - RIGHT);
    parts.push(draw("rect", { id: "brushed", x: x.toFixed(1), y: TOP, width: Math.max(end - x, 1).toFixed(1),
      height: HIGH, style: { fill: "var(--chosen)", stroke: "var(--focus)" } }));
  }
  for (const failure of data.failures.filter((of) => of.device === device().device && seen(of.time))) {
    const x = across(failure.time).toFixed(1);
    parts.push(draw("path", { d: `M${x} ${TOP}V${base}`, style: { stroke: "var(--bad)" } },
      [draw("title", { text: `out of memory: ${bytes(failure.bytes)} asked for at ${failure.line}` })]));
  }
  device().moments.forEach((then, index) => {
    if (!seen(then.time)) return;
    const x = across(then.time).toFixed(1), now = index === state.moment;
    if (now) parts.push(draw("path", { class: "axis", "stroke-dasharray": "2 3", d: `M${x} ${TOP}V${base}` }));
    parts.push(draw("circle", { cx: x, cy: base, r: now ? 6 : then.kind === "peak" ? 5 : 3,
      style: { fill: now ? "var(--focus)" : "var(--back)", stroke: "var(--text)" } },
    [draw("title", { text: `${time(then.time)}, ${called(then)}` })]));
  });
}

function brushFrom(event) {
  if (event.button) return;
  const box = event.currentTarget.getBoundingClientRect();
  const at = (of) => timeAt((of.clientX - box.left) / box.width * WIDTH);
  const start = at(event), startX = event.clientX;
  const end = (up, moved) => {
    if (Math.abs(up.clientX - startX) > 3) chooseRange(start, at(up));
    else if (!moved) nearestMoment(start);
  };
  const move = (of) => end(of, true);
  const done = (up) => {
    removeEventListener("pointermove", move);
    removeEventListener("pointerup", done);
    end(up, false);
  };
  addEventListener("pointermove", move);
  addEventListener("pointerup", done);
  event.preventDefault();
}

function nearestMoment(at) {
  const apart = (index) => Math.abs(device().moments[index].time - at);
  const all = device().moments.map((_, index) => index);
  if (all.length) chooseMoment(all.reduce((best, index) => (apart(index) < apart(best) ? index : best), 0));
}
