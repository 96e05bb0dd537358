// Colours of cells, light and dark.

const RAMPS = {
  light: [["#ffffe0", "#c4e6c3", "#52b3c4", "#2a66ae", "#0d1f5c"], ["#1f5fa8", "#8fc1e0", "#f6f6f4", "#f2a184", "#ad1328"]],
  dark: [["#1d1a3d", "#2f4f8f", "#268e8c", "#66c95e", "#fde725"], ["#6cb8f5", "#2c5f8a", "#20252b", "#96463a", "#ff8f75"]],
};
const dark = matchMedia("(prefers-color-scheme: dark)");
const ramps = new Map();

function rgb(text) {
  return [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16));
}

// 256 colours of a ramp: of memory, or of differences with the middle for none.
function ramp(mode) {
  const key = (dark.matches ? "dark" : "light") + mode;
  if (!ramps.has(key)) {
    const stops = RAMPS[dark.matches ? "dark" : "light"][mode].map(rgb);
    const all = new Uint8Array(256 * 3);
    for (let i = 0; i < 256; i++) {
      const place = i / 255 * (stops.length - 1), low = Math.min(Math.floor(place), stops.length - 2);
      for (let part = 0; part < 3; part++) {
        all[i * 3 + part] = stops[low][part] + (stops[low + 1][part] - stops[low][part]) * (place - low);
      }
    }
    ramps.set(key, all);
  }
  return ramps.get(key);
}

function variable(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function drawScale() {
  const canvas = make("canvas", { width: 256, height: 1, "aria-hidden": "true" });
  const image = new ImageData(256, 1), colours = ramp(state.mode);
  for (let i = 0; i < 256; i++) image.data.set([colours[i * 3], colours[i * 3 + 1], colours[i * 3 + 2], 255], i * 4);
  canvas.getContext("2d").putImageData(image, 0, 0);
  const most = state.mode ? mostOff() : data.most[state.part];
  const [first, last] = state.mode ? [bytes(-most), "+" + bytes(most)] : ["0 B", bytes(most)];
  fill("scale", make("span", { text: first }), canvas, make("span", { id: "scale-most", text: last }),
    make("span", { text: state.mode ? "than the median of the peers that run then" : PARTS[state.part][1] }));
  const unit = data.units[state.part];
  const exact = unit === 1 ? "" : ` Figures over time are to within ${bytes(unit)}; peaks are exact.`;
  document.getElementById("map-note").textContent =
    `A column is ${timeText(data.column_ns)} of time, and shows the greatest memory in it.${exact} A red mark at the right is a rank that differs; a cross is one that died.`;
}

function timeText(nanos) {
  for (const [unit, size] of [["s", 1e9], ["ms", 1e6], ["µs", 1e3]]) {
    if (nanos >= size) return (nanos / size).toPrecision(3) + " " + unit;
  }
  return nanos + " ns";
}
