// A figure with its exact bytes.

import { make } from "./dom";
import { bytes, many } from "./format";

export function figure(value: number): HTMLSpanElement {
  return make("span", { text: bytes(value), title: many(value, "byte", "bytes"), "data-bytes": value });
}
