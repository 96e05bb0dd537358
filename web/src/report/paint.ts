// The colours of blocks: by category, line or module.

import { item } from "../lib/item";
import type { History } from "./history";
import type { Paint } from "./paints";
import type { Colours } from "./raster";
import { data, paintBy } from "./state";

/** 0xAABBGGRR as a signed 32-bit number, like the pixels of a canvas. */
type Pixel = number;

/** A colour of the style as a pixel. */
function pixelOf(colour: string): Pixel {
  const context = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  if (!context) return 0xff808080 | 0;
  context.fillStyle = colour;
  context.fillRect(0, 0, 1, 1);
  const [red = 0, green = 0, blue = 0] = context.getImageData(0, 0, 1, 1).data;
  return (0xff000000 | (blue << 16) | (green << 8) | red);
}

/** The value of a colour of the style. */
export function styled(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

const UNKNOWN = "--unknown";
/** The most lines or modules with distinct colours; all others share one. */
const HUES = 12;

/** The key that determines a block's colour; -1: unknown. */
function keyOf(history: History, paint: Paint): (block: number) => number {
  const { stacks, module_of } = data.stacks;
  if (paint === "category") return (block) => item(history.categories, block);
  return (block) => {
    const stack = item(history.stacks, block);
    if (stack < 0) return -1;
    return paint === "line" ? item(stacks, stack)[1] : item(module_of, stack) - 1;
  };
}

export interface Painted extends Colours {
  /** Name and colour of each key with a distinct colour, the largest first. */
  legend: { name: string; colour: string }[];
}

function nameOf(key: number, paint: Paint): string {
  if (paint === "category") return item(data.categories, key);
  return paint === "line" ? item(data.stacks.owners, key).line : item(data.stacks.modules, key);
}

function colourOf(key: number, place: number, paint: Paint): string {
  if (paint === "category") return styled(`--${item(data.categories, key).replace(/[ _]/g, "-")}`) || styled(UNKNOWN);
  return styled(`--hue-${place}`);
}

/** The same colour, darker. */
function darker(colour: Pixel): Pixel {
  const part = (shift: number) => Math.round(((colour >>> shift) & 0xff) * 0.78) << shift;
  return (0xff000000 | part(16) | part(8) | part(0));
}

/** Colours of a level's blocks. The keys with the most bytes over time have distinct colours. */
function workOut(history: History, paint: Paint): Painted {
  const key = keyOf(history, paint), { times } = history.ticks;
  const weights = new Map<number, number>();
  const end = times[times.length - 1] ?? 0;
  for (let block = 0; block < history.count; block++) {
    const life = (times[item(history.ended, block)] ?? end) - item(times, item(history.made, block)), of = key(block);
    weights.set(of, (weights.get(of) ?? 0) + item(history.bytes, block) * Math.max(life, 1));
  }
  const keys = [...weights].filter(([of]) => of >= 0).sort((a, b) => b[1] - a[1]).slice(0, HUES).map(([of]) => of);
  const legend = keys.map((of, place) => ({ name: nameOf(of, paint), colour: colourOf(of, place, paint) }));
  const own = new Map(keys.map((of, place) => [of, pixelOf(legend[place]?.colour ?? "")]));
  const others = pixelOf(styled(UNKNOWN));
  if (keys.length < weights.size) legend.push({ name: paint === "category" ? "not told apart" : `other ${paint}s`, colour: styled(UNKNOWN) });
  const darks = new Map([...own.values(), others].map((pixel) => [pixel, darker(pixel)]));
  const pixels = new Int32Array(history.count), dark = new Int32Array(history.count);
  for (let block = 0; block < history.count; block++) {
    const pixel = own.get(key(block)) ?? others;
    pixels[block] = pixel;
    dark[block] = darks.get(pixel) ?? pixel;
  }
  return { pixels, dark, others, othersDark: darker(others), back: pixelOf(styled("--soft")), legend };
}

const scheme = matchMedia("(prefers-color-scheme: dark)");
const known = new Map<History, { by: Paint; look: string; painted: Painted }>();

/** Colours of a level's blocks as chosen. */
export function paintOf(history: History): Painted {
  // Light and dark mode have different backgrounds, and paper has the light one. Computed styles would cost each frame
  // some milliseconds.
  const look = document.documentElement.classList.contains("printing") ? "paper" : String(scheme.matches);
  const before = known.get(history), by = paintBy(history);
  if (before?.by === by && before.look === look) return before.painted;
  const painted = workOut(history, by);
  known.set(history, { by, look, painted });
  return painted;
}
