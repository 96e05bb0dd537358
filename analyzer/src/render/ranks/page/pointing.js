// The mouse and the keyboard on the heatmap: which rank and column is looked at, which rank is pinned.

function startMap() {
  canvas = make("canvas", { id: "cells", tabindex: 0, role: "img", onpointermove: pointed, onpointerleave: leave,
    onclick: (event) => {
      pointed(event);
      if (state.at) pin(state.at.index);
    }, onkeydown: mapKey });
  const box = fill("map", make("div", { id: "tall" }, [canvas]));
  box.addEventListener("scroll", drawMap);
  addEventListener("resize", () => {
    drawMap();
    drawAxis();
  });
  dark.addEventListener("change", () => {
    drawMap();
    drawScale();
  });
}

function relayMap() {
  layOut();
  document.getElementById("tall").style.height = whole + "px";
  const what = state.mode ? "how far each rank is from its peers" : "memory of each rank";
  canvas.setAttribute("aria-label", `Heatmap: ${what} over time, ${PARTS[state.part][1]}. Arrow keys go from rank to rank and through time, Enter pins a rank.`);
  drawMap();
}

// Of the ranks at a height: the one whose cell is the farthest out.
function lookAt(found, column) {
  let best = null, most = -1;
  for (let at = found[0]; at < found[1]; at++) {
    const here = weight(order[at], column);
    const by = here === null ? -0.5 : Math.abs(here);
    if (by > most) [best, most] = [order[at], by];
  }
  state.at = { index: best, column, others: found[1] - found[0] - 1 };
  sayAt();
  drawMap();
}

function pointed(event) {
  const box = canvas.getBoundingClientRect();
  const y = event.clientY - box.top + document.getElementById("map").scrollTop;
  const share = (event.clientX - box.left - SIDE) / (box.width - SIDE - MARKS);
  const found = between(y, y + 1);
  if (!found || !data.columns) return leave();
  lookAt(found, Math.max(0, Math.min(data.columns - 1, Math.floor(share * data.columns))));
}

function leave() {
  if (!state.at) return;
  state.at = null;
  sayAt();
  drawMap();
}

function sayAt() {
  const said = document.getElementById("said");
  if (!state.at) {
    said.textContent = "Point at a cell, or use the arrow keys: rank, machine, time, bytes. A click or Enter pins the rank.";
    return;
  }
  const { index, column, others } = state.at, part = state.part;
  const from = column * data.column_ns, value = cell(part, index, column);
  const where = [host(index), place(index)].filter(Boolean).map((of) => ", " + of).join("");
  const median = peersOver(part, groupOf[index]).median[column];
  const peers = value && data.groups[groupOf[index]].ranks.length > 1 ? `; its peers' median ${cellText(part, median)}` : "";
  const more = others ? ` Of ${count(others + 1)} ranks in this line it has the ${state.mode ? "largest difference" : "most"}.` : "";
  const ends = tickText(from, timeStep(data.column_ns * data.columns) / 100);
  said.textContent = `Rank ${data.ranks.rank[index]}${where}, at ${ends} (${clock(from)}): ${PARTS[part][1]} ${cellText(part, value)}${peers}.${more}`;
}

function pin(index) {
  choose("pinned", state.pinned === index ? -1 : index);
}

function mapKey(event) {
  const start = state.pinned >= 0 ? state.pinned : order[0];
  const { index, column } = state.at || { index: start, column: 0 };
  const to = (at, column) => {
    const row = Math.max(0, Math.min(order.length - 1, at));
    lookAt([row, row + 1], Math.max(0, Math.min(data.columns - 1, column)));
    const [top, tall] = topOf(order[row]), box = document.getElementById("map");
    if (top < box.scrollTop) box.scrollTop = top - 20;
    if (top + tall > box.scrollTop + box.clientHeight) box.scrollTop = top + tall + 20 - box.clientHeight;
  };
  const at = placeOf[index], page = event.shiftKey ? 10 : 1;
  const moves = { ArrowDown: [at + page, column], ArrowUp: [at - page, column], ArrowRight: [at, column + page],
    ArrowLeft: [at, column - page], Home: [at, 0], End: [at, data.columns - 1], PageDown: [at + 16, column], PageUp: [at - 16, column] };
  if (moves[event.key]) to(...moves[event.key]);
  else if (event.key === "Enter" || event.key === " ") pin(index);
  else if (event.key === "Escape") choose("pinned", -1);
  else return;
  event.preventDefault();
}
