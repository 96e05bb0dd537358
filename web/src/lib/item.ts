// Items of lists by index.

/** The item at an existing index. An index beyond the list is an error of the page, not a missing figure. */
export function item<T>(list: ArrayLike<T>, place: number): T {
  const found = list[place];
  if (found === undefined) throw new RangeError(`no item ${place} in a list of ${list.length}`);
  return found;
}

/** The same for figures, of which there are millions: only one type of list, so that it stays fast. */
export function figureAt(list: Float64Array, place: number): number {
  const found = list[place];
  if (found === undefined) throw new RangeError(`no figure ${place} among ${list.length}`);
  return found;
}

/** The last item of a list that is not empty. */
export function last<T>(list: ArrayLike<T>): T {
  return item(list, list.length - 1);
}

/** The sum of a value of each item. */
export function sumOf<T>(list: readonly T[], of: (item: T) => number): number {
  return list.reduce((sum, each) => sum + of(each), 0);
}

/** Less than 0, 0 or more than 0, for sort(). */
export function compare<T extends string | number>(a: T, b: T): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** Groups items by a key, in their order. */
export function grouped<T, K>(list: Iterable<T>, key: (item: T) => K): Map<K, T[]> {
  const found = new Map<K, T[]>();
  for (const each of list) {
    const of = key(each), group = found.get(of);
    if (group) group.push(each);
    else found.set(of, [each]);
  }
  return found;
}
