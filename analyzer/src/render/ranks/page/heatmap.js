// Rank by time: a row for each rank, or for several where there are more ranks than lines.

const HIGH = 640, HEADING = 18, SIDE = 46, MARKS = 16, TALL = 15, HEADINGS = 64;
let canvas = null, strips = [], whole = 0;

// Strips from the top: a heading, or the rows of a group.
function layOut() {
  const headed = data.groups.length > 1 && data.groups.length <= HEADINGS;
  const room = HIGH - (headed ? data.groups.length * HEADING : 0);
  const fit = Math.min(TALL, Math.max(room, HIGH * 0.7) / Math.max(order.length, 1));
  const tall = state.tall ? TALL : fit >= 2 ? Math.floor(fit) : fit;
  strips = [];
  whole = 0;
  let first = 0;
  for (const group of data.groups) {
    if (headed) {
      strips.push({ top: whole, high: HEADING, heading: group });
      whole += HEADING;
    }
    const high = group.ranks.length * tall;
    strips.push({ top: whole, high, first, tall, count: group.ranks.length });
    whole += high;
    first += group.ranks.length;
  }
  whole = Math.max(Math.ceil(whole), 1);
}

// Places of the ranks that lie between two heights: from, to.
function between(from, to) {
  let low = 0, high = strips.length - 1;
  while (low < high) {
    const half = (low + high + 1) >> 1;
    if (strips[half].top <= from) low = half;
    else high = half - 1;
  }
  const strip = strips[low];
  if (!strip || strip.heading || from >= strip.top + strip.high) return null;
  const begin = Math.min(Math.floor((from - strip.top) / strip.tall + 1e-6), strip.count - 1);
  const end = Math.min(Math.max(Math.ceil((to - strip.top) / strip.tall - 1e-6), begin + 1), strip.count);
  return [strip.first + begin, strip.first + end];
}

function topOf(index) {
  const at = placeOf[index];
  const strip = strips.find((of) => of.count && at >= of.first && at < of.first + of.count);
  return [strip.top + (at - strip.first) * strip.tall, strip.tall];
}

// What a cell is by: its figure, or how far it is from its peers.
function weight(index, column) {
  const value = cell(state.part, index, column);
  if (value === 0) return null;
  return state.mode ? value - peersOver(state.part, groupOf[index]).median[column] : value - 1;
}

const farthest = new Map();

function mostOff() {
  if (!farthest.has(state.part)) {
    let most = 0;
    for (const index of order) {
      const median = peersOver(state.part, groupOf[index]).median;
      for (let column = 0; column < data.columns; column++) {
        const value = cell(state.part, index, column);
        if (value > 0) most = Math.max(most, Math.abs(value - median[column]));
      }
    }
    farthest.set(state.part, most * data.units[state.part]);
  }
  return farthest.get(state.part);
}

function drawCells(image, top, density) {
  const most = Math.max(1, (state.mode ? mostOff() : data.most[state.part]) / data.units[state.part]);
  const colours = ramp(state.mode), [r, g, b] = rgb(dark.matches ? "#1e2329" : "#f3f5f7");
  const pixels = image.data, wide = image.width;
  const row = new Float64Array(wide), has = new Uint8Array(wide);
  let before = null;
  for (let y = 0; y < image.height; y++) {
    const found = between(top + y / density, top + (y + 1) / density);
    if (!found) {
      before = null;
      continue;
    }
    const start = y * wide * 4;
    if (before && before[0] === found[0] && before[1] === found[1]) {
      pixels.copyWithin(start, start - wide * 4, start);
      continue;
    }
    before = found;
    has.fill(0);
    for (let at = found[0]; at < found[1]; at++) {
      const index = order[at];
      for (let x = 0; x < wide; x++) {
        const here = weight(index, x);
        if (here !== null && (!has[x] || Math.abs(here) > Math.abs(row[x]))) [row[x], has[x]] = [here, 1];
      }
    }
    for (let x = 0; x < wide; x++) {
      const share = state.mode ? (row[x] / most + 1) / 2 : row[x] / most;
      const colour = Math.max(0, Math.min(255, Math.round(share * 255))) * 3;
      pixels.set(has[x] ? [colours[colour], colours[colour + 1], colours[colour + 2], 255] : [r, g, b, 255], start + x * 4);
    }
  }
}

function drawMap() {
  const box = document.getElementById("map"), density = Math.min(devicePixelRatio || 1, 2);
  const wide = box.clientWidth, high = Math.min(whole, box.clientHeight || HIGH), top = box.scrollTop;
  [canvas.width, canvas.height] = [Math.max(1, wide * density), Math.max(1, high * density)];
  canvas.style.height = high + "px";
  const pen = canvas.getContext("2d");
  const image = new ImageData(Math.max(1, data.columns), canvas.height);
  if (data.columns) drawCells(image, top, density);
  const sheet = make("canvas", { width: image.width, height: image.height });
  sheet.getContext("2d").putImageData(image, 0, 0);
  pen.imageSmoothingEnabled = false;
  pen.drawImage(sheet, SIDE * density, 0, (wide - SIDE - MARKS) * density, canvas.height);
  pen.scale(density, density);
  pen.translate(0, -top);
  pen.textBaseline = "middle";
  const font = "system-ui, sans-serif";
  let free = -Infinity;
  for (const strip of strips) {
    if (strip.top + strip.high < top || strip.top > top + high) continue;
    pen.fillStyle = variable("--text");
    if (strip.heading) {
      pen.font = "600 12px " + font;
      pen.fillText(`${strip.heading.place}: ${many(strip.heading.ranks.length, "rank", "ranks")}`, 6, strip.top + HEADING / 2, wide - 12);
      free = strip.top + HEADING;
      continue;
    }
    pen.font = "11px " + font;
    pen.textAlign = "right";
    const from = Math.max(0, Math.floor((top - strip.top) / strip.tall) - 1);
    const to = Math.min(strip.count, Math.ceil((top + high - strip.top) / strip.tall) + 1);
    const step = roundStep(13 / strip.tall);
    for (let at = Math.ceil(from / step) * step; at < to; at += step) {
      const y = strip.top + (at + 0.5) * strip.tall;
      if (y - 6 < free) continue;
      free = y + 6;
      pen.fillText(data.ranks.rank[order[strip.first + at]], SIDE - 5, Math.max(y, top + 6), SIDE - 8);
    }
    for (let at = from; at < to; at++) markRow(pen, order[strip.first + at], strip.top + at * strip.tall, strip.tall, wide);
    pen.textAlign = "left";
  }
  if (state.pinned >= 0) frameRow(pen, state.pinned, wide, variable("--focus"), 2);
  if (state.at) {
    frameRow(pen, state.at.index, wide, variable("--text"), 1);
    const x = acrossMap(state.at.column + 0.5, wide);
    pen.strokeStyle = variable("--text");
    pen.setLineDash([2, 3]);
    pen.beginPath();
    pen.moveTo(x, top);
    pen.lineTo(x, top + high);
    pen.stroke();
    pen.setLineDash([]);
  }
}

// The least of 1, 2, 5, 10, 20, … that is at least so much.
function roundStep(least) {
  for (let power = 1; ; power *= 10) for (const digit of [1, 2, 5]) if (power * digit >= least) return power * digit;
}

function acrossMap(column, wide) {
  return SIDE + column / data.columns * (wide - SIDE - MARKS);
}

function markRow(pen, index, top, tall, wide) {
  if (outlying.has(data.ranks.rank[index])) {
    pen.fillStyle = variable("--bad");
    pen.fillRect(wide - MARKS + 4, top, MARKS - 6, Math.max(tall - 0.5, 2));
  }
  if (!isDead(index)) return;
  const size = Math.min(4, Math.max(tall / 2 - 1, 1.5));
  const x = Math.min(acrossMap(data.ranks.ended_ns[index] / data.column_ns, wide), wide - MARKS - size) + size, y = top + tall / 2;
  for (const [colour, thick] of [[variable("--back"), 4], [variable("--bad"), 2]]) {
    [pen.strokeStyle, pen.lineWidth] = [colour, thick];
    pen.beginPath();
    for (const way of [-1, 1]) {
      pen.moveTo(x - size, y - way * size);
      pen.lineTo(x + size, y + way * size);
    }
    pen.stroke();
  }
}

function frameRow(pen, index, wide, colour, thick) {
  const [top, tall] = topOf(index);
  pen.strokeStyle = colour;
  pen.lineWidth = thick;
  pen.strokeRect(SIDE - 1, top - 0.5, wide - SIDE - MARKS + 2, Math.max(tall, 2) + 1);
}

// Times below the rows; as many as there is room for.
function drawAxis() {
  const wide = Math.max(document.getElementById("map").clientWidth, 200);
  const span = data.column_ns * data.columns, step = timeStep(span) * (wide < 600 ? 2 : 1);
  const parts = [];
  for (let tick = 0; tick <= span; tick += step) {
    const x = acrossMap(tick / data.column_ns, wide).toFixed(1);
    parts.push(draw("path", { class: "axis", d: `M${x} 0v4` }));
    if (Number(x) < wide - 24) parts.push(draw("text", { x, y: 16, "text-anchor": tick ? "middle" : "start", text: tickText(tick, step) }));
  }
  const svg = draw("svg", { viewBox: `0 0 ${wide} 20`, "aria-hidden": "true" }, parts);
  svg.id = "axis";
  const old = document.getElementById("axis");
  if (old) old.replaceWith(svg);
  else document.getElementById("map").after(svg);
}
