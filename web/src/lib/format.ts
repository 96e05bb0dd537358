// Figures as text.

const KIB = 1024;
const UNITS = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
/** Digits after the point, and the figure from which on there are fewer. */
const DECIMALS: [number, number][] = [[2, 10], [1, 100], [0, 1024]];

export function bytes(value: number): string {
  const sign = value < 0 ? "-" : "";
  let left = Math.abs(value);
  if (left < KIB) return `${sign}${left} B`;
  for (const unit of UNITS) {
    left /= KIB;
    for (const [decimals, limit] of DECIMALS) {
      const scale = 10 ** decimals;
      if (Math.round(left * scale) / scale < limit) return `${sign}${left.toFixed(decimals)} ${unit}`;
    }
  }
  return `${sign}${left.toFixed(0)} EiB`;
}

export function count(value: number): string {
  return String(value).replace(/\B(?=(\d{3})+(?!\d))/g, ",");
}

export function many(value: number, one: string, more: string): string {
  return `${count(value)} ${value === 1 ? one : more}`;
}

/**
 * To the nearest percent, as on the command line: a nonzero part is never 0 %, and less than the whole is never 100
 * %.
 */
export function percent(part: number, whole: number): string {
  if (whole <= 0) return "";
  const nearest = Math.floor((part / whole) * 100 + 0.5);
  if (nearest === 0 && part > 0) return "<1 %";
  return nearest === 100 && part < whole ? ">99 %" : `${nearest} %`;
}

/** A time of the run, to a thousandth of a second, or finer if the run is short. */
export function time(nanos: number, span?: number): string {
  const digits = span !== undefined && span < 2e7 ? 6 : 3;
  const seconds = nanos / 1e9;
  const whole = Math.floor(seconds);
  const pad = (n: number) => String(n).padStart(2, "0");
  const part = (seconds - whole).toFixed(digits).slice(1);
  const hours = Math.floor(whole / 3600);
  return `${hours ? `${hours}:` : ""}${pad(Math.floor(whole / 60) % 60)}:${pad(whole % 60)}${part}`;
}
