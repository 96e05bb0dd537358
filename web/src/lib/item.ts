// Items of lists by their place.

/** The item at a place that has one: a place beyond the list is an error of the page, and never a missing figure. */
export function item<T>(list: ArrayLike<T>, place: number): T {
  const found = list[place];
  if (found === undefined) throw new RangeError(`no item ${place} in a list of ${list.length}`);
  return found;
}

/** The same of figures, of which there are millions: no other lists come here, so that it stays fast. */
export function figureAt(list: Float64Array, place: number): number {
  const found = list[place];
  if (found === undefined) throw new RangeError(`no figure ${place} among ${list.length}`);
  return found;
}

/** The last item of a list that has any. */
export function last<T>(list: ArrayLike<T>): T {
  return item(list, list.length - 1);
}

/** The sum of what each item has. */
export function sumOf<T>(list: readonly T[], of: (item: T) => number): number {
  return list.reduce((sum, each) => sum + of(each), 0);
}

/** Less than 0, 0 or more than 0, as sort() wants it. */
export function compare<T extends string | number>(a: T, b: T): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** Items that have the same key, in their order. */
export function grouped<T, K>(list: Iterable<T>, key: (item: T) => K): Map<K, T[]> {
  const found = new Map<K, T[]>();
  for (const each of list) {
    const of = key(each), group = found.get(of);
    if (group) group.push(each);
    else found.set(of, [each]);
  }
  return found;
}
