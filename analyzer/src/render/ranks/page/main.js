// The head, the choices, and who redraws what.

function drawHead() {
  document.getElementById("named").textContent = "Ranks of " + data.named;
  fill("answer", ...data.answer.map((text, at) => make("p", { class: at ? undefined : data.differs ? "differs" : "alike", text })));
  document.getElementById("notes-section").hidden = !data.notes.length;
  fill("notes", ...data.notes.map((text) => make("li", { text })));
}

function options(id, label, names, chosen, chosenNow) {
  const select = make("select", { id, onchange: (event) => chosenNow(Number(event.target.value)) },
    names.map((name, index) => make("option", { value: index, selected: index === chosen, text: name })));
  return make("label", {}, [label, select]);
}

function startChoices() {
  const rank = make("input", { type: "number", id: "rank", min: 0, onchange: (event) => {
    const index = event.target.value === "" ? -1 : data.ranks.rank.indexOf(Number(event.target.value));
    event.target.setCustomValidity(index < 0 && event.target.value !== "" ? "There is no capture of this rank." : "");
    event.target.reportValidity();
    showRank(index);
  } });
  fill("choices",
    options("part", "Memory of", PARTS.map(([, name]) => name), state.part, (part) => choose("part", part)),
    options("mode", "Colours show", ["bytes", "the difference from peers"], state.mode, (mode) => choose("mode", mode)),
    order.length * TALL > HIGH && options("tall-rows", "Rows", ["all in view", "large"], state.tall, (tall) => choose("tall", tall)),
    make("label", {}, ["Rank", rank]));
}

async function main() {
  const [first, second] = document.getElementById("data").textContent.split("\n");
  try {
    data = JSON.parse(new TextDecoder().decode(await inflated(first)));
    cells = unpackCells(await inflated(second), PARTS.length, data.ranks.rank.length, data.columns);
  } catch (error) {
    fill("answer", make("p", { class: "failed", text: `This browser cannot unpack the page's figures (${error.message}): Chrome 80, Firefox 113, Safari 16.4 and newer can.` }));
    return;
  }
  startState();
  drawHead();
  document.querySelector("main").hidden = false;
  startChoices();
  startMap();
  startRanks();
  drawOutliers();
  drawEndings();
  sayAt();
  on((what) => {
    for (const [id, of] of [["part", "part"], ["mode", "mode"], ["tall-rows", "tall"]]) {
      const select = document.getElementById(id);
      if (select) select.value = state[of];
    }
    if (what === "pinned") drawMap();
    else relayMap();
    if (["part", "pinned"].includes(what)) drawPinned();
    if (what === "part") drawGroups();
    if (what !== "pinned") drawScale();
    if (["part", "pinned"].includes(what)) drawRanks();
    sayAt();
  });
  tell("part");
  drawAxis();
  document.documentElement.dataset.ready = "yes";
}

main();
