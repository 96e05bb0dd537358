// Elements. Names come from captures that anybody may have written: they are only ever text.

const SVG = "http://www.w3.org/2000/svg";

export type Child = Node | string | false | 0 | null | undefined;

type Listeners = { [K in keyof HTMLElementEventMap]?: (event: HTMLElementEventMap[K]) => void };

/** What an element is given. A value that is undefined or false is left out, true is an attribute without a value. */
export interface Attributes {
  text?: string | number | undefined;
  /** Set property by property: the page's policy allows no style attribute. */
  style?: Record<string, string | number>;
  on?: Listeners;
  [name: string]: string | number | boolean | undefined | Record<string, string | number> | Listeners;
}

function put<E extends HTMLElement | SVGElement>(element: E, attributes: Attributes, children: readonly Child[]): E {
  const { text, style, on, ...others } = attributes;
  if (text !== undefined) element.textContent = String(text);
  for (const [name, value] of Object.entries(style ?? {})) element.style.setProperty(name, String(value));
  for (const [name, listener] of Object.entries(on ?? {})) element.addEventListener(name, listener as EventListener);
  for (const [name, value] of Object.entries(others)) {
    if (value === undefined || value === false || typeof value === "object") continue;
    element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children) if (child) element.append(child);
  return element;
}

export function make<K extends keyof HTMLElementTagNameMap>(
  tag: K, attributes: Attributes = {}, children: readonly Child[] = [],
): HTMLElementTagNameMap[K] {
  return put(document.createElement(tag), attributes, children);
}

export function draw<K extends keyof SVGElementTagNameMap>(
  tag: K, attributes: Attributes = {}, children: readonly Child[] = [],
): SVGElementTagNameMap[K] {
  return put(document.createElementNS(SVG, tag), attributes, children);
}

/** The element with an id, of a kind. */
export function byId(id: string): HTMLElement;
export function byId<E extends HTMLElement | SVGElement>(id: string, kind: new () => E): E;
export function byId(id: string, kind: new () => HTMLElement | SVGElement = HTMLElement): HTMLElement | SVGElement {
  const found = document.getElementById(id);
  if (!(found instanceof kind)) throw new Error(`the page has no ${kind.name} #${id}`);
  return found;
}

/** Puts these children in the place of all that an element has. */
export function fill(id: string, ...children: Child[]): HTMLElement {
  const element = byId(id);
  element.replaceChildren(...children.filter((child): child is Node | string => Boolean(child)));
  return element;
}

/** The text that an element has. */
export function say(id: string, text: string): void {
  byId(id).textContent = text;
}

/** What an input or a list that listens has now. */
export function valueOf(event: Event): string {
  const of = event.currentTarget;
  if (of instanceof HTMLInputElement || of instanceof HTMLSelectElement) return of.value;
  throw new TypeError("the event is of no input");
}

/** A list of names, of which one is chosen by its number. */
export function options(
  id: string, label: string, names: readonly string[], chosen: number, choose: (index: number) => void,
): HTMLLabelElement {
  const select = make("select", { id, on: { change: (event) => { choose(Number(valueOf(event))); } } },
    names.map((name, index) => make("option", { value: index, selected: index === chosen, text: name })));
  return make("label", {}, [label, select]);
}

/** Draws controls anew; the one that has the focus keeps it. */
export function keepingFocus(redraw: () => void): void {
  const id = document.activeElement?.id;
  redraw();
  const again = id ? document.getElementById(id) : null;
  if (again && again !== document.activeElement) again.focus();
}
