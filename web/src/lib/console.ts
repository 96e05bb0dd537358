// The parts of a page for tests and for users of the browser's console: the object `gpumem`. It is the only global.

/** Adds these to the object under their names: `gpumem.NAME`. */
export function offer(parts: object): void {
  Object.defineProperty(globalThis, "gpumem", { value: parts });
}
