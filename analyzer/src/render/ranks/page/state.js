// What is chosen: a part of the memory, what colours mean, how tall rows are, a rank.

const PARTS = [["tensors", "tensors"], ["reserved", "PyTorch's allocator"], ["process", "the process"]];
const state = { part: 0, mode: 0, tall: 0, pinned: -1, at: null };
let data = null, cells = [], order = [], groupOf = [], placeOf = [], outlying = new Set();
const listeners = [], medians = new Map();

function on(changed) {
  listeners.push(changed);
}

// Tells everybody what changed: "part", "mode", "tall", "pinned".
function tell(what) {
  for (const listener of listeners) listener(what);
}

function choose(what, value) {
  state[what] = value;
  tell(what);
}

// Ranks in the picture's order: by group, each group's by number.
function startState() {
  const ranks = data.ranks;
  data.groups.forEach((group, number) => {
    for (const index of group.ranks) {
      groupOf[index] = number;
      placeOf[index] = order.length;
      order.push(index);
    }
  });
  outlying = new Set(data.outlying);
  const shown = data.outlying.length ? ranks.rank.indexOf(data.outliers[0].rank) : -1;
  state.pinned = shown;
  const metric = data.outliers.length && data.outliers[0].metric;
  state.part = metric === "cache" ? 1 : metric === "outside" || metric === "unexplained" ? 2 : 0;
}

function peaks(part) {
  return data.ranks[PARTS[part][0]];
}

function host(index) {
  const number = data.ranks.host[index];
  return number === null ? "" : data.ranks.hosts[number];
}

function place(index) {
  const number = data.ranks.place[index];
  return number === null ? "" : data.ranks.places[number];
}

// A cell's bytes: at most so many, and more than one unit less. 0 units: it held nothing then, or did not run.
function cell(part, index, column) {
  return cells[part][index * data.columns + column];
}

function cellBytes(part, value) {
  return (value - 1) * data.units[part];
}

function cellText(part, value) {
  if (value === 0) return "does not run";
  const unit = data.units[part], most = cellBytes(part, value);
  return unit === 1 || most === 0 ? bytes(most) : bytes(most - unit) + " to " + bytes(most);
}

// The lower of the middle ones, as the rest of the tool has it.
function middle(values) {
  return values.sort((a, b) => a - b)[(values.length - 1) >> 1];
}

// Of each column: the median, the least and the greatest of a group's cells; 0 where none of it runs.
function peersOver(part, group) {
  const key = part + ":" + group;
  if (!medians.has(key)) {
    const of = { median: new Float64Array(data.columns), least: new Float64Array(data.columns), most: new Float64Array(data.columns) };
    for (let column = 0; column < data.columns; column++) {
      const values = [];
      for (const index of data.groups[group].ranks) {
        const value = cell(part, index, column);
        if (value > 0) values.push(value);
      }
      if (!values.length) continue;
      of.median[column] = middle(values);
      [of.least[column], of.most[column]] = [values[0], values[values.length - 1]];
    }
    medians.set(key, of);
  }
  return medians.get(key);
}

const ENDED = { clean: "", running: "runs", killed: "killed", out_of_memory: "out of memory" };

function isDead(index) {
  return ["killed", "out_of_memory"].includes(data.ranks.ended[index]);
}

function clock(nanos) {
  const at = new Date(data.from_unix_ms + nanos / 1e6);
  return at.toISOString().slice(11, 23) + " UTC";
}

function signed(value) {
  return (value > 0 ? "+" : "") + bytes(value);
}
