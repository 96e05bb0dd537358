// The tables: ranks that differ, peers, endings, all ranks.

const OPEN = 3;

function drawOutliers() {
  document.getElementById("outliers-section").hidden = !data.outliers.length;
  const byRank = new Map();
  for (const of of data.outliers) byRank.set(of.rank, [...(byRank.get(of.rank) || []), of]);
  const parts = [...byRank].map(([rank, told], at) => {
    const [main] = told;
    const place = EXPLAIN[main.metric].length && main.differences.find((row) => !["category", "module"].includes(row.of) &&
      EXPLAIN[main.metric].includes(row.of) && Math.sign(row.bytes - row.median_bytes) === Math.sign(main.off_bytes));
    const summary = `Rank ${rank}: ` + told.map((of) => `${signed(of.off_bytes)} ${of.word}${since(of.since)}`).join("; ") +
      (place ? `; ${place.name}` : "");
    return make("details", { open: at < OPEN, "data-rank": rank }, [make("summary", { text: summary }),
      make("button", { type: "button", text: "Show it in the heatmap", onclick: () => showRank(data.ranks.rank.indexOf(rank)) }),
      make("div", { class: "wide" }, [differences(told)])]);
  });
  const more = data.outlying.length - byRank.size;
  if (more > 0) parts.push(make("p", { class: "faint", text: `${many(more, "more rank differs", "more ranks differ")}: marked in the heatmap and in the table of ranks; --format json has them.` }));
  fill("outliers", ...parts);
}

function showRank(index) {
  if (index < 0) return;
  choose("pinned", index);
  const [top] = topOf(index), box = document.getElementById("map");
  box.scrollTop = Math.max(0, top - box.clientHeight / 2);
  document.getElementById("map-head").scrollIntoView();
}

const MOST_GROUPS = 256;

function drawGroups() {
  const part = state.part, all = peaks(part), greatest = Math.max(1, ...order.map((index) => all[index]));
  const heads = ["peers", "ranks", "least", "median", "most", ""].map((text, at) =>
    make("th", { scope: "col", class: at && at < 5 ? "number" : undefined, text }));
  const rows = data.groups.slice(0, MOST_GROUPS).map((group) => {
    const values = group.ranks.map((index) => all[index]), median = middle(values);
    const [least, most] = [values[0], values[values.length - 1]];
    const at = (value) => value / greatest * 100 + "%";
    const strip = make("span", { class: "strip", role: "img", "aria-label": `from ${bytes(least)} to ${bytes(most)}` }, [
      make("span", { style: { left: at(least), width: (most - least) / greatest * 100 + "%" } }), make("i", { style: { left: at(median) } })]);
    return make("tr", {}, [make("td", { text: group.place || "all ranks" }),
      ...[count(values.length), bytes(least), bytes(median), bytes(most)].map((text) => make("td", { class: "number", text })), make("td", {}, [strip])]);
  });
  const more = data.groups.length - MOST_GROUPS;
  fill("groups", make("table", {}, [make("caption", { text: `Each rank's most of ${PARTS[part][1]}, at its own moment.` }),
    make("thead", {}, [make("tr", {}, heads)]), make("tbody", {}, rows)]),
  more > 0 && make("p", { class: "faint", text: many(more, "more group", "more groups") }));
}

const MOST_DEAD = 50;

function drawEndings() {
  const { out_of_memory, killed, running, clean } = data.endings, of = new Map(data.ranks.rank.map((rank, index) => [rank, index]));
  const counts = [[out_of_memory.length, "ran out of memory"], [killed.length, "killed"], [running, "still running"], [clean, "in an orderly way"]];
  const said = counts.filter(([number]) => number).map(([number, what]) => `${many(number, "rank", "ranks")} ${what}`).join(", ");
  const dead = [...out_of_memory, ...killed].map((rank) => of.get(rank)).sort((a, b) => data.ranks.ended_ns[a] - data.ranks.ended_ns[b]);
  const first = dead.length ? data.ranks.ended_ns[dead[0]] : 0;
  const rows = dead.slice(0, MOST_DEAD).map((index, at) => make("tr", {}, [
    make("td", { text: "Rank " + data.ranks.rank[index] }), make("td", { text: host(index) }), make("td", { text: ENDED[data.ranks.ended[index]] }),
    make("td", { class: "number", text: timeFrom(data.ranks.ended_ns[index]) }),
    make("td", { class: "number", text: at ? "+" + timeText(data.ranks.ended_ns[index] - first) : "first" }),
    make("td", { class: "number", text: data.ranks.wanted[index] === undefined ? "" : bytes(data.ranks.wanted[index]) })]));
  const heads = ["rank", "machine", "ended", "at", "after the first", "could not be allocated"].map((text, at) =>
    make("th", { scope: "col", class: at > 2 ? "number" : undefined, text }));
  fill("endings", make("p", { text: said + "." }),
    dead.length > 0 && make("table", {}, [make("thead", {}, [make("tr", {}, heads)]), make("tbody", {}, rows)]),
    dead.length > MOST_DEAD && make("p", { class: "faint", text: `${many(dead.length - MOST_DEAD, "more rank", "more ranks")} died later.` }));
}

const LINE = 28, BESIDE = 12;
const COLUMNS = [
  ["rank", "rank", "number", (i) => data.ranks.rank[i]],
  ["machine", "host", "", host],
  ["GPU", "device", "number", (i) => data.ranks.device[i] ?? ""],
  ["place", "place", "", place],
  ...PARTS.map(([key, name]) => [name, key, "number", (i) => data.ranks[key][i], bytes]),
  ["steps", "steps", "number", (i) => data.ranks.steps[i], count],
  ["ended", "ended", "", (i) => ENDED[data.ranks.ended[i]]],
];
const sorting = { column: 0, up: true };
let sorted = [], sought = "";

function sortRanks() {
  const of = COLUMNS[sorting.column][3], way = sorting.up ? 1 : -1;
  sorted = order.slice().sort((a, b) => data.ranks.rank[a] - data.ranks.rank[b]);
  if (sought) {
    sorted = sorted.filter((index) => [String(data.ranks.rank[index]), host(index), place(index), ENDED[data.ranks.ended[index]]]
      .some((text) => text.toLowerCase().includes(sought)));
  }
  const keys = new Map(sorted.map((index) => [index, of(index)]));
  sorted.sort((a, b) => (keys.get(a) < keys.get(b) ? -way : keys.get(a) > keys.get(b) ? way : data.ranks.rank[a] - data.ranks.rank[b]));
}

function startRanks() {
  const box = document.getElementById("ranks");
  fill("ranks-bar", make("label", {}, ["Find a rank, machine, place or end", make("input", { type: "search", id: "find", oninput: (event) => {
    sought = event.target.value.trim().toLowerCase();
    box.scrollTop = 0;
    sortRanks();
    drawRanks();
  } })]), make("span", { class: "faint", id: "found" }));
  box.addEventListener("scroll", drawRanks);
  sortRanks();
}

// Only rows that can be seen are in the page.
function drawRanks() {
  const box = document.getElementById("ranks"), room = Math.ceil((box.clientHeight || 460) / LINE);
  const from = Math.max(0, Math.floor(box.scrollTop / LINE) - BESIDE), to = Math.min(sorted.length, from + room + 2 * BESIDE);
  const focus = document.activeElement && document.activeElement.dataset.column;
  const heads = COLUMNS.map(([name, , kind], at) => {
    const way = at === sorting.column ? (sorting.up ? "ascending" : "descending") : "none";
    return make("th", { scope: "col", class: kind, "aria-sort": way }, [make("button", { type: "button", text: name, "data-column": at, onclick: () => {
      [sorting.up, sorting.column] = [sorting.column === at ? !sorting.up : kind !== "number" || at === 0, at];
      sortRanks();
      drawRanks();
    } })]);
  });
  const gap = (rows) => rows > 0 && make("tr", { class: "gap", "aria-hidden": "true" }, [make("td", { colspan: COLUMNS.length, style: { height: rows * LINE + "px" } })]);
  const rows = sorted.slice(from, to).map((index, at) => make("tr", {
    class: `row${outlying.has(data.ranks.rank[index]) ? " differs" : ""}${index === state.pinned ? " chosen" : ""}`, "aria-rowindex": from + at + 2,
    onclick: () => choose("pinned", index) }, COLUMNS.map(([, , kind, of, text]) => {
    const value = of(index);
    return make("td", { class: kind, text: text ? text(value) : value, title: text === bytes ? count(value) + " bytes" : undefined });
  })));
  fill("ranks", make("table", { "aria-rowcount": sorted.length + 1 }, [make("thead", {}, [make("tr", {}, heads)]),
    make("tbody", {}, [gap(from), ...rows, gap(sorted.length - to)])]));
  document.getElementById("found").textContent = `${many(sorted.length, "rank", "ranks")}. A click on a row pins the rank.`;
  if (focus !== undefined) document.querySelector(`[data-column="${focus}"]`)?.focus();
}
