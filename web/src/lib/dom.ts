// Elements. Names come from captures of unknown origin, so they are only ever inserted as text.

const SVG = "http://www.w3.org/2000/svg";

export type Child = Node | string | false | 0 | null | undefined;

type Listeners = { [K in keyof HTMLElementEventMap]?: (event: HTMLElementEventMap[K]) => void };

/** Attributes of an element. Values that are undefined or false are omitted; true is an attribute without a value. */
export interface Attributes {
  text?: string | number | undefined;
  /** Set property by property, because the page's policy allows no style attribute. */
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

/** The element with an id, and of a kind. */
export function byId(id: string): HTMLElement;
export function byId<E extends HTMLElement | SVGElement>(id: string, kind: new () => E): E;
export function byId(id: string, kind: new () => HTMLElement | SVGElement = HTMLElement): HTMLElement | SVGElement {
  const found = document.getElementById(id);
  if (!(found instanceof kind)) throw new Error(`the page has no ${kind.name} #${id}`);
  return found;
}

/** Replaces all children of an element. */
export function fill(id: string, ...children: Child[]): HTMLElement {
  const element = byId(id);
  element.replaceChildren(...children.filter((child): child is Node | string => Boolean(child)));
  return element;
}

/** Sets the text of an element. */
export function say(id: string, text: string): void {
  byId(id).textContent = text;
}

/** The current value of an input or list that handles an event. */
export function valueOf(event: Event): string {
  const of = event.currentTarget;
  if (of instanceof HTMLInputElement || of instanceof HTMLSelectElement) return of.value;
  throw new TypeError("the event is of no input");
}

/** A list of names; the selected one is given by its index. */
export function options(
  id: string, label: string, names: readonly string[], chosen: number, choose: (index: number) => void,
): HTMLLabelElement {
  const select = make("select", { id, on: { change: (event) => { choose(Number(valueOf(event))); } } },
    names.map((name, index) => make("option", { value: index, selected: index === chosen, text: name })));
  return make("label", {}, [label, select]);
}

/** Redraws controls; the focused one keeps the focus. */
export function keepingFocus(redraw: () => void): void {
  const id = document.activeElement?.id;
  redraw();
  const again = id ? document.getElementById(id) : null;
  if (again && again !== document.activeElement) again.focus();
}
