// The ranks of a folder: one row each, and each a link to its capture's page.

const AGAIN = 500;
const EACH = { ranks: null, drawn: "" };

function figure(value) {
  if (value === null) return make("span", { class: "faint", text: "-" });
  return make("span", { text: bytes(value), title: many(value, "byte", "bytes"), "data-bytes": value });
}

function stateOf(now) {
  if (now.state === "reading") return `reading ${Math.floor(now.read[0] / Math.max(now.read[1], 1) * 100)} %`;
  return now.state === "stopped" ? "stopped: " + now.why : now.state;
}

function differs(row) {
  return row.differs.map((of) => `${of.metric}: ${bytes(Math.abs(of.off))} ${of.off < 0 ? "less" : "more"} than the median of ${of.peers} peers`).join("; ");
}

// Rows come by rank; equal ones stay so.
function ordered(rows) {
  const off = (row) => (row.differs.length ? Math.abs(row.differs[0].off) : -1);
  const peak = (row) => (row.now ? row.now.tensor_peak : 0);
  const by = { rank: () => 0, difference: (a, b) => off(b) - off(a), peak: (a, b) => peak(b) - peak(a) }[document.getElementById("sort").value];
  return [...rows].sort(by);
}

function drawRanks() {
  const all = EACH.ranks;
  const drawn = JSON.stringify([all, document.getElementById("sort").value]);
  if (!all || drawn === EACH.drawn) return;
  EACH.drawn = drawn;
  document.getElementById("folder").textContent = all.folder;
  const states = {};
  for (const row of all.rows) if (row.now) states[row.now.state] = (states[row.now.state] || 0) + 1;
  const parts = [many(all.rows.length, "capture", "captures"), ...Object.entries(states).map(([word, number]) => `${number} ${word}`)];
  const off = all.rows.filter((row) => row.differs.length).length;
  if (off) parts.push(`${off} differ`);
  if (all.beyond) parts.push(`${all.beyond} more are not followed`);
  if (all.error) parts.push(all.error);
  document.getElementById("state").textContent = parts.join(" · ");
  if (!all.rows.length) {
    fill("ranks", make("p", { text: "No capture yet: each is shown as soon as its program begins." }));
    return;
  }
  const heads = [["rank", ""], ["local", "number"], ["host/pid", "optional"], ["state", ""], ["tensors", "number"], ["peak", "number"],
    ["reserved", "number"], ["process", "number"], ["NVML", "number"], ["card", "number"], ["step", "number"], ["fail", "number"], ["differs", ""]];
  const text = (of) => make("span", { text: of === null ? "-" : String(of) });
  const focus = document.activeElement && document.activeElement.id;
  const rows = ordered(all.rows).map((row) => {
    const now = row.now;
    const mark = row.differs.length ? "! " : "";
    const link = make("a", { id: "capture-" + row.number, href: row.number + "/" + location.search, title: row.name,
      text: mark + (now && now.rank !== null ? "rank " + now.rank : row.name) });
    if (!now) return [link, ...heads.slice(1).map(() => text("-"))];
    const share = now.card ? `${Math.round(now.process / now.card * 100)} %` : "-";
    return [link, text(now.local_rank), text(`${now.host || "-"}/${now.pid}`), text(stateOf(now)), figure(now.tensors), figure(now.tensor_peak),
      figure(now.reserved), figure(now.process), figure(now.nvml), text(share), text(count(now.steps)), text(count(now.failures)), text(differs(row))];
  });
  fill("ranks", make("table", {}, [
    make("thead", {}, [make("tr", {}, heads.map(([head, kind]) => make("th", { scope: "col", class: kind, text: head })))]),
    make("tbody", {}, rows.map((cells) => make("tr", {}, cells.map((cell, index) => make("td", { class: heads[index][1] }, [cell]))))),
  ]));
  const again = focus && document.getElementById(focus);
  if (again) again.focus();
}

async function look() {
  const connection = document.getElementById("connection");
  try {
    const answer = await fetch("ranks" + location.search);
    if (!answer.ok) throw new Error(await answer.text());
    EACH.ranks = await answer.json();
    connection.textContent = "";
    drawRanks();
  } catch {
    connection.textContent = "No connection: gpumem-analyze has ended, or the tunnel to it. The figures are the last that came.";
  }
  setTimeout(look, AGAIN);
}

document.getElementById("sort").addEventListener("change", drawRanks);
look();
