"use strict";
// Numbers and elements. Names come from captures that anybody may have written: they are only ever text.

const KIB = 1024;
const UNITS = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

function bytes(value) {
  const sign = value < 0 ? "-" : "";
  let left = Math.abs(value);
  if (left < KIB) return sign + left + " B";
  for (const unit of UNITS) {
    left /= KIB;
    for (const [decimals, limit] of [[2, 10], [1, 100], [0, 1024]]) {
      const scale = 10 ** decimals;
      if (Math.round(left * scale) / scale < limit) return sign + left.toFixed(decimals) + " " + unit;
    }
  }
  return sign + left.toFixed(0) + " EiB";
}

function count(value) {
  return String(value).replace(/\B(?=(\d{3})+(?!\d))/g, ",");
}

function many(value, one, more) {
  return count(value) + " " + (value === 1 ? one : more);
}

function percent(part, whole) {
  return whole > 0 ? (part / whole * 100).toFixed(1) + " %" : "";
}

// A moment of the run, to a thousandth of a second, or finer where the run is short.
function time(nanos, span) {
  const digits = span !== undefined && span < 2e7 ? 6 : 3;
  const seconds = nanos / 1e9;
  const whole = Math.floor(seconds);
  const pad = (n) => String(n).padStart(2, "0");
  const part = (seconds - whole).toFixed(digits).slice(1);
  const hours = Math.floor(whole / 3600);
  return (hours ? hours + ":" : "") + pad(Math.floor(whole / 60) % 60) + ":" + pad(whole % 60) + part;
}

const SVG = "http://www.w3.org/2000/svg";

function put(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name === "text") element.textContent = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, of] of Object.entries(value)) element.style.setProperty(key, of);
    else if (value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children || []) if (child) element.append(child);
  return element;
}

function make(tag, attributes, children) {
  return put(document.createElement(tag), attributes, children);
}

function draw(tag, attributes, children) {
  return put(document.createElementNS(SVG, tag), attributes, children);
}

function fill(id, ...children) {
  const element = document.getElementById(id);
  element.replaceChildren(...children.filter(Boolean));
  return element;
}
