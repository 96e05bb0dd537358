// The table, and what is chosen of it.

const BY = { line: "Lines", category: "Categories", module: "Modules" };
const LEVELS = { tensor: "tensors", driver: "memory from CUDA", host: "pinned host memory", physical: "what the card gave" };
const MOMENTS = { now: "now", peak: "at the peak so far" };
const THEN = { now: "then", peak: "at the peak up to then" };
const SORTS = { bytes: "bytes", blocks: "blocks", name: "name" };

function select(name, label, options) {
  const list = Object.entries(options).map(([value, text]) => make("option", { value, selected: value === choice[name], text }));
  return make("label", {}, [label, make("select", { id: name, onchange: (event) => choose(name, event.target.value) }, list)]);
}

// Drawn anew only where it changes, so that an open list stays open.
view.draw.choices = () => {
  const devices = { "": "all" };
  for (const on of shown.now ? shown.now.devices : []) devices[on.device] = "GPU " + on.device;
  const drawn = JSON.stringify([choice, view.paused, Object.keys(devices)]);
  if (drawn === view.choices) return;
  view.choices = drawn;
  const focus = document.activeElement && document.activeElement.id;
  const levels = { "": "the level that shows most", ...LEVELS };
  const filter = document.getElementById("filter") || make("input", { type: "search", id: "filter", placeholder: "rows that contain",
    maxlength: 200, "aria-label": "Only rows that contain this", oninput: typed });
  fill("choices",
    select("by", "Rows of", BY), select("level", "Level", levels), select("moment", "Moment", MOMENTS),
    Object.keys(devices).length > 2 && select("device", "Device", devices), select("sort", "Order", SORTS), filter,
    make("button", { type: "button", id: "pause", "aria-pressed": String(view.paused), text: view.paused ? "Go on" : "Stop here", onclick: pause }));
  const again = focus && document.getElementById(focus);
  if (again) again.focus();
};

// A pause in typing is waited for.
function typed(event) {
  clearTimeout(view.typing);
  view.typing = setTimeout(() => choose("filter", event.target.value), 250);
}

view.draw.table = () => {
  const now = shown.table;
  const only = now.device === null ? "" : `, GPU ${now.device}`;
  fill("sum", make("strong", {}, [`${BY[now.by]}: ${LEVELS[now.level]} ${(view.past ? THEN : MOMENTS)[now.moment]}${only}, `, figure(now.total)]),
    make("span", { class: "faint", "data-seq": now.seq, text: ` as of event ${count(now.seq)}` }));
  if (!now.rows.length) {
    fill("table", make("p", { text: choice.filter ? "No row contains that." : "Nothing is held." }));
    return;
  }
  const devices = new Set(now.rows.map((row) => row.device)).size > 1;
  const heads = [[BY[now.by].slice(0, -1).replace("Categorie", "Category"), "name"], [now.by === "module" ? "class" : "function", "optional"], ["for", ""],
    ["bytes", "number"], ["share", "share-cell"], ["blocks", "number"], ...(devices ? [["device", "number"]] : [])];
  if (now.by === "category") heads[1][1] = heads[2][1] = "none";
  const rows = now.rows.map((row) => {
    const cut = row.name.length > 60 ? "…" + row.name.slice(-59) : row.name;
    const bar = make("span", { class: "share", style: { width: `${row.share * 0.6}px` } });
    const open = make("button", { type: "button", class: "row", "data-key": row.key, text: cut, title: row.name, onclick: () => openRow(row.key) });
    const cells = [open, make("span", { text: row.of }), make("span", { text: row.more }),
      figure(row.bytes), make("span", {}, [bar, ` ${row.share} %`]), make("span", { text: count(row.blocks) })];
    if (devices) cells.push(make("span", { text: row.device === null ? "none" : "GPU " + row.device }));
    return cells;
  });
  const keep = heads.map(([, kind]) => kind !== "none");
  const kept = (cells) => cells.filter((_, index) => keep[index]);
  const table = simpleTable(kept(heads), rows.map(kept));
  const left = now.found > now.rows.length ? `the first ${count(now.rows.length)} of ${many(now.found, "row", "rows")}; ` : "";
  table.prepend(make("caption", {}, [`${left}${choice.filter ? "rows found hold" : "together"} `, figure(now.found_bytes),
    ` in ${many(now.found_blocks, "block", "blocks")}`]));
  fill("table", table);
};
