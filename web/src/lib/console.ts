// What tests, and people at the browser's console, may use of a page: the object `gpumem`. Nothing else is global.

/** Offers these under their names, as `gpumem.NAME`. */
export function offer(parts: object): void {
  Object.defineProperty(globalThis, "gpumem", { value: parts });
}
