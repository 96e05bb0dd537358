// Tables: lines at the moment that is shown, and what is known of the peak.

const MOST_ROWS = 500;
const sorting = { key: "bytes", up: false };
let filter = "";

function table(caption, heads, rows, foot) {
  const cell = (tag) => (of, index) => {
    const head = heads[index] || {};
    const content = of && of.nodeType ? { children: [of] } : { text: of === undefined ? "" : String(of) };
    return make(tag, { class: head.kind, text: content.text, title: head.titles && of ? String(of) : undefined }, content.children);
  };
  const head = heads.map((of) => {
    const sorted = of.key === sorting.key ? (sorting.up ? "ascending" : "descending") : "none";
    const button = of.key && make("button", { type: "button", text: of.name, onclick: () => sortBy(of.key) });
    return make("th", { scope: "col", class: of.kind, "aria-sort": of.key ? sorted : undefined, text: of.key ? undefined : of.name }, [button]);
  });
  return make("table", {}, [
    make("caption", { text: caption }),
    make("thead", {}, [make("tr", {}, head)]),
    make("tbody", {}, rows.map((row) => make("tr", {}, row.map(cell("td"))))),
    foot && make("tfoot", {}, foot.map((row) => make("tr", {}, row.map(cell("td"))))),
  ]);
}

function sortBy(key) {
  sorting.up = sorting.key === key ? !sorting.up : !["bytes", "blocks"].includes(key);
  sorting.key = key;
  drawLines();
  const heads = [...document.querySelectorAll("#lines th button")];
  const again = heads[["line", "function", "phase", "source", "bytes", "blocks"].indexOf(key)];
  if (again) again.focus();
}

// Rows by owner; all of them sum to the level's own figure.
function lineRows() {
  const now = level(), rows = new Map();
  for (const [stack, size, blocks] of now ? now.stacks : []) {
    const number = data.stacks.stacks[stack][1], owner = data.stacks.owners[number];
    const row = rows.get(number) || { ...owner, phase: owner.phase || "", bytes: 0, blocks: 0 };
    row.bytes += size;
    row.blocks += blocks;
    rows.set(number, row);
  }
  return [...rows.values()];
}

function drawLines() {
  const now = level();
  if (!now) {
    fill("lines", make("p", { text: "Nothing was live." }));
    return;
  }
  const takes = (row) => [row.line, row.path, row.function, row.source, row.phase].some((of) => of.toLowerCase().includes(filter));
  const rows = lineRows().filter(takes);
  const order = (a, b) => {
    const [x, y] = [a[sorting.key], b[sorting.key]];
    const by = x < y ? -1 : x > y ? 1 : a.line < b.line ? -1 : a.line > b.line ? 1 : 0;
    return sorting.up ? by : -by;
  };
  rows.sort(order);
  const [others, otherBytes, otherBlocks] = now.others;
  const cells = (row) => {
    const line = make("span", { text: row.line, title: row.path || undefined });
    return [line, row.function, row.phase, row.source, bytes(row.bytes), percent(row.bytes, now.bytes), count(row.blocks)];
  };
  const shown = rows.slice(0, MOST_ROWS).map(cells);
  const sum = (of, key) => of.reduce((all, row) => all + row[key], 0);
  const foot = [];
  if (rows.length > MOST_ROWS) {
    const rest = rows.slice(MOST_ROWS), size = sum(rest, "bytes");
    foot.push([many(rest.length, "more line", "more lines"), "", "", "", bytes(size), percent(size, now.bytes), count(sum(rest, "blocks"))]);
  }
  let [all, blocks] = [sum(rows, "bytes"), sum(rows, "blocks")];
  if (others && !filter) {
    foot.push([`${many(others, "other stack", "other stacks")}, not in this page`, "", "", "", bytes(otherBytes), percent(otherBytes, now.bytes), count(otherBlocks)]);
    all += otherBytes;
    blocks += otherBlocks;
  }
  foot.push([filter ? "together, of those found" : "together", "", "", "", bytes(all), percent(all, now.bytes), count(blocks)]);
  const heads = [{ name: "Line", key: "line", kind: "path" }, { name: "Function", key: "function" }, { name: "Phase", key: "phase" },
    { name: "Source", key: "source", kind: "code" }, { name: "Bytes", key: "bytes", kind: "number" },
    { name: "Share", kind: "number" }, { name: "Blocks", key: "blocks", kind: "number" }];
  const then = moment();
  const caption = `${device().title}, ${levelWord(now)}, ${time(then.time, data.to - data.from)}, event ${count(then.seq)} (${called(then)})`;
  fill("lines", table(caption, heads, shown, foot));
}

function drawLedger() {
  const now = device(), whole = now.ledger.reduce((sum, row) => sum + row.bytes, 0);
  if (!now.ledger.length) {
    fill("ledger", make("p", { text: "No GPU memory was allocated." }));
    return;
  }
  const heads = [{ name: "Part" }, { name: "Bytes", kind: "number" }, { name: "Share", kind: "number" }, { name: "" }, { name: "Line that led to most of it" }];
  const share = (row) => row.bytes <= 0 ? "" : make("span", { class: "share", style: { width: row.bytes / Math.max(whole, 1) * 120 + "px" } });
  const rows = now.ledger.flatMap((row) => [
    [row.name, bytes(row.bytes), percent(row.bytes, whole), share(row), row.line || row.detail],
    ...(row.categories || []).map((of) => [make("span", { class: "part", text: `of these ${of.category}` }), bytes(of.bytes), percent(of.bytes, whole), "", ""]),
  ]);
  const at = now.peak ? `${now.title} at its peak, ${time(now.peak[0])}, event ${count(now.peak[1])}${now.when}` : now.title;
  fill("ledger", table(at, heads, rows, [["together", bytes(whole), percent(whole, whole), "", ""]]));
}

/* The same line has the same colour in every segment; those that hold most have one, lines put together none. */
function lineColours(pool) {
  const sums = new Map();
  for (const line of pool.segments.flatMap((of) => of.lines)) sums.set(line.line, (sums.get(line.line) || 0) + line.bytes);
  const single = [...sums].filter(([line]) => !/^[\d,]+ more lines?$/.test(line));
  const largest = single.sort((a, b) => b[1] - a[1]).map(([line]) => line);
  return (line) => LIBRARIES[largest.indexOf(line)] || "var(--unknown)";
}

function drawPool() {
  const pool = device().pool;
  document.getElementById("pool-section").hidden = !pool;
  if (!pool) return;
  document.getElementById("pool-said").textContent =
    `${bytes(pool.reserved)} held from the driver, ${bytes(pool.live)} of them in tensors; the largest free block has ${bytes(pool.largest_free)}.`;
  const most = Math.max(1, ...pool.segments.map((of) => of.bytes));
  const colour = lineColours(pool);
  const rows = pool.segments.map((of) => {
    const pieces = of.lines.map((line) => make("span", { title: `${line.line}: ${bytes(line.bytes)}`,
      style: { width: line.bytes / of.bytes * 100 + "%", background: colour(line.line) } }));
    const bar = make("div", { class: "segment", role: "img", style: { width: of.bytes / most * 100 + "%" },
      "aria-label": `${percent(of.live, of.bytes)} in tensors` }, pieces);
    const lines = of.lines.map((line) => `${line.line} ${bytes(line.bytes)}`).join(", ");
    return [of.address + (of.expandable ? " (expandable)" : ""), bytes(of.bytes), bytes(of.live), count(of.blocks), bytes(of.largest_free),
      make("div", { style: { width: "200px" } }, [bar]), lines];
  });
  const heads = [{ name: "Segment", kind: "code" }, { name: "Bytes", kind: "number" }, { name: "Tensors", kind: "number" },
    { name: "Blocks", kind: "number" }, { name: "Largest free", kind: "number" }, { name: "Map" }, { name: "Pinned by", kind: "path" }];
  const [more, size, live] = pool.others;
  const foot = more ? [[many(more, "smaller segment", "smaller segments"), bytes(size), bytes(live), "", "", "", ""]] : undefined;
  const caption = "Each bar is as long as its segment; what is coloured is tensors, each line with a colour of its own as far as there are any, the rest is free.";
  fill("pool", table(caption, heads, rows, foot));
}

function drawFailures() {
  document.getElementById("failures-section").hidden = !data.failure_count;
  const heads = [{ name: "Time" }, { name: "Event", kind: "number" }, { name: "Device" }, { name: "Asked for", kind: "number" }, { name: "By" }];
  const rows = data.failures.map((of) => [time(of.time), count(of.seq), of.device === null ? "none" : "GPU " + of.device,
    bytes(of.bytes), of.line + of.when]);
  const caption = `${many(data.failure_count, "allocation", "allocations")} for which there was no memory` +
    (data.failure_count > rows.length ? `; the first ones and the newest are shown` : "");
  fill("failures", table(caption, heads, rows));
}

function startTables() {
  const input = make("input", { type: "search", id: "filter", oninput: (event) => {
    filter = event.target.value.trim().toLowerCase();
    drawLines();
  } });
  fill("lines-bar", make("label", {}, ["Filter lines", input]));
}
