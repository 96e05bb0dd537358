// Colours of cells, light and dark.

import { fill, make, say } from "../lib/dom";
import { bytes } from "../lib/format";
import { item } from "../lib/item";
import { PARTS, data, mostOff } from "./job";
import { state } from "./state";
import { durationText } from "./words";

type Rgb = [number, number, number];

/** By mode: for memory, or for differences, where the middle means no difference. */
const RAMPS = {
  light: [["#ffffe0", "#c4e6c3", "#52b3c4", "#2a66ae", "#0d1f5c"], ["#1f5fa8", "#8fc1e0", "#f6f6f4", "#f2a184", "#ad1328"]],
  dark: [["#1d1a3d", "#2f4f8f", "#268e8c", "#66c95e", "#fde725"], ["#6cb8f5", "#2c5f8a", "#20252b", "#96463a", "#ff8f75"]],
} as const;
const NOTHING = { light: "#f3f5f7", dark: "#1e2329" };
export const dark = matchMedia("(prefers-color-scheme: dark)");
const ramps = new Map<string, Uint8Array>();

function scheme(): "light" | "dark" {
  return dark.matches ? "dark" : "light";
}

function rgb(text: string): Rgb {
  const part = (at: number) => parseInt(text.slice(at, at + 2), 16);
  return [part(1), part(3), part(5)];
}

/** The colour where no program runs. */
export function noColour(): Rgb {
  return rgb(NOTHING[scheme()]);
}

/** The 256 colours of a ramp. */
export function ramp(mode: 0 | 1): Uint8Array {
  const key = `${scheme()}${mode}`;
  let all = ramps.get(key);
  if (all) return all;
  const stops = RAMPS[scheme()][mode].map(rgb);
  all = new Uint8Array(256 * 3);
  for (let i = 0; i < 256; i++) {
    const at = (i / 255) * (stops.length - 1), low = Math.min(Math.floor(at), stops.length - 2);
    const from = item(stops, low), to = item(stops, low + 1);
    for (const part of [0, 1, 2] as const) all[i * 3 + part] = from[part] + (to[part] - from[part]) * (at - low);
  }
  ramps.set(key, all);
  return all;
}

/** A ramp's colour as a pixel. */
export function pixel(colours: Uint8Array, number: number): [...Rgb, number] {
  return [item(colours, number * 3), item(colours, number * 3 + 1), item(colours, number * 3 + 2), 255];
}

export function variable(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** A canvas' drawing context. */
export function penOf(canvas: HTMLCanvasElement): CanvasRenderingContext2D {
  const pen = canvas.getContext("2d");
  if (!pen) throw new Error("this browser draws no canvas");
  return pen;
}

export function drawScale(): void {
  const canvas = make("canvas", { width: 256, height: 1, "aria-hidden": "true" });
  const image = new ImageData(256, 1), colours = ramp(state.mode);
  for (let i = 0; i < 256; i++) image.data.set(pixel(colours, i), i * 4);
  penOf(canvas).putImageData(image, 0, 0);
  const most = state.mode ? mostOff(state.part) : data.most[state.part];
  const [first, last] = state.mode ? [bytes(-most), `+${bytes(most)}`] : ["0 B", bytes(most)];
  fill("scale", make("span", { text: first }), canvas, make("span", { id: "scale-most", text: last }),
    make("span", { text: state.mode ? "than the median of the peers that run then" : PARTS[state.part][1] }));
  const unit = data.units[state.part];
  const exact = unit === 1 ? "" : ` Figures over time are to within ${bytes(unit)}; peaks are exact.`;
  say("map-note", `A column is ${durationText(data.column_ns)} of time and shows the largest memory in it.${exact} A red mark at the right is a rank that differs; a cross is one that died.`);
}
