// Memory over the whole run: the greatest of each stretch of time.

const LEFT = 78, RIGHT = 12, TOP = 10, HIGH = 230;
const PARTS = [["tensors", "var(--tensors)"], ["PyTorch's allocator", "var(--cached)"], ["the process", "var(--beyond)"]];

function courseShown() {
  const all = shown.course || [];
  return all.find((of) => String(of.device) === choice.device) || all[0];
}

// The outline of a part, as steps from bucket to bucket.
function outline(values, x, y, base) {
  let path = `M${x(0)} ${base}`;
  values.forEach((value, index) => { path += `V${y(value)}H${x(index + 1)}`; });
  return path + `V${base}Z`;
}

view.draw.course = () => {
  const course = courseShown();
  if (!course || !course.greatest.length) {
    fill("chart", make("p", { text: "Nothing was allocated yet." }));
    return;
  }
  const buckets = course.greatest, base = TOP + HIGH;
  // As wide as its place, so that its text is as large as the page's.
  const WIDTH = Math.max(300, document.getElementById("chart").clientWidth);
  const begin = Math.max(course.start, 0), end = course.start + buckets.length * course.width;
  const across = (at) => LEFT + (at - begin) / (end - begin) * (WIDTH - LEFT - RIGHT);
  const x = (index) => Math.max(LEFT, across(course.start + index * course.width)).toFixed(1);
  const most = buckets.reduce((all, parts) => Math.max(all, ...parts), 1);
  const y = (value) => (base - value / most * (HIGH - 6)).toFixed(1);
  const parts = [];
  // The largest first, so that each stands before the one that contains it.
  [2, 1, 0].forEach((part) => {
    const [name, colour] = PARTS[part];
    parts.push(draw("path", { style: { fill: colour }, d: outline(buckets.map((of) => of[part]), x, y, base) }, [draw("title", { text: name })]));
  });
  for (let tick = 0, step = byteStep(most); tick <= most; tick += step) {
    parts.push(draw("path", { class: "grid", d: `M${LEFT} ${y(tick)}H${WIDTH - RIGHT}` }));
    parts.push(draw("text", { x: LEFT - 8, y: Number(y(tick)) + 4, "text-anchor": "end", text: bytes(tick) }));
  }
  const step = timeStep((end - begin) * (WIDTH < 700 ? 2.5 : 1));
  for (let tick = Math.ceil(begin / step) * step; tick <= end; tick += step) {
    const at = across(tick);
    parts.push(draw("path", { class: "axis", d: `M${at.toFixed(1)} ${base}v4` }));
    if (at < WIDTH - 40) parts.push(draw("text", { x: at.toFixed(1), y: base + 17, "text-anchor": "middle", text: tickText(tick, step) }));
  }
  for (const failure of (shown.now ? shown.now.failures : []).filter((of) => of.device === course.device)) {
    parts.push(draw("path", { d: `M${across(failure.time).toFixed(1)} ${TOP}V${base}`, style: { stroke: "var(--bad)" } },
      [draw("title", { text: `found no memory: ${bytes(failure.bytes)}` })]));
  }
  if (view.past) {
    const at = Math.min(Math.max(across(shown.now.time), LEFT), WIDTH - RIGHT).toFixed(1);
    parts.push(draw("path", { class: "moment", d: `M${at} ${TOP}V${base}`, style: { stroke: "currentColor" } }, [draw("title", { text: "what is shown" })]));
  }
  const label = `GPU ${course.device}: memory over time, at most ${bytes(most)}`;
  const svg = draw("svg", { viewBox: `0 0 ${WIDTH} ${base + 24}`, role: "img", "aria-label": label, "data-most": most }, parts);
  const legend = PARTS.map(([name, colour]) => make("li", {}, [make("span", { class: "swatch", style: { background: colour } }), name]));
  legend.push(make("li", { class: "faint", text: `on GPU ${course.device}; each step is the most in ${(course.width / 1e6).toFixed(1)} ms` }));
  fill("chart", svg, make("ul", { class: "legend", "aria-label": "Colours" }, legend));
};
