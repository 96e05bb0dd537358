// The flamegraph of the moment that is shown: the oldest frames at the top.

const ROW = 20, NARROWEST = 0.0012;
let flameRoot = null, wanted = "", focused = 0;

// Frames of the moment with their bytes: number, name, bytes, children.
function flameTree() {
  const now = level(), tree = data.stacks.tree, names = data.stacks.names;
  const frames = new Map([[0, { number: 0, name: "all", bytes: now ? now.bytes : 0, blocks: 0, parent: null, children: [] }]]);
  const frame = (number) => {
    let found = frames.get(number);
    if (!found) {
      const [parent, name] = tree[number - 1];
      const above = frame(parent);
      found = { number, name: names[name], bytes: 0, blocks: 0, parent: above, children: [] };
      above.children.push(found);
      frames.set(number, found);
    }
    return found;
  };
  const root = frames.get(0);
  if (!now) return root;
  for (const [stack, size, blocks] of now.stacks) {
    for (let at = frame(data.stacks.stacks[stack][0] + 1); at; at = at.parent) {
      if (at !== root) at.bytes += size;
      at.blocks += blocks;
    }
  }
  const [others, size, blocks] = now.others;
  root.blocks += blocks;
  if (others) {
    const name = `(${many(others, "other stack", "other stacks")}, not in this page)`;
    root.children.push({ number: -1, name, bytes: size, blocks, parent: root, children: [] });
  }
  const sort = (of) => {
    of.children.sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
    of.children.forEach(sort);
  };
  sort(root);
  return root;
}

function findFrame(of, number) {
  if (of.number === number) return of;
  for (const child of of.children) {
    const found = findFrame(child, number);
    if (found) return found;
  }
  return null;
}

function matches(frame) {
  return wanted !== "" && frame.name.toLowerCase().includes(wanted);
}

// Bytes below the outermost frames that match.
function matched(frame) {
  if (matches(frame)) return frame.bytes;
  return frame.children.reduce((sum, child) => sum + matched(child), 0);
}

function frameColour(name) {
  let hash = 0;
  for (let i = 0; i < name.length; i++) hash = (hash * 31 + name.charCodeAt(i)) % 997;
  const hue = / \(.*:\d+\)$/.test(name) ? 24 + hash % 32 : name.startsWith("backward:") ? 270 : 190 + hash % 40;
  return `hsl(${hue} 72% ${70 + hash % 9}%)`;
}

function drawFlame() {
  flameRoot = flameTree();
  const zoomed = findFrame(flameRoot, state.frame) || flameRoot;
  state.frame = zoomed.number;
  const boxes = [];
  const place = (frame, left, width, depth, above) => {
    const label = `${frame.name}: ${bytes(frame.bytes)}, ${percent(frame.bytes, flameRoot.bytes)}, ` +
      many(frame.blocks, "block", "blocks");
    const box = make("div", { role: "treeitem", "aria-level": depth + 1, "aria-label": label, title: label,
      tabindex: frame.number === focused ? 0 : -1, "data-frame": frame.number,
      "aria-expanded": frame.children.length ? true : undefined,
      class: (matches(frame) ? "found " : "") + (above ? "above" : ""), text: frame.name,
      style: { left: left * 100 + "%", width: width * 100 + "%", top: depth * ROW + "px", background: frameColour(frame.name) } });
    if (frame.children.length) box.setAttribute("aria-expanded", "true");
    boxes.push([box, depth]);
    return box;
  };
  const below = (frame, left, width, depth) => {
    place(frame, left, width, depth, false);
    let at = left;
    for (const child of frame.children) {
      const share = frame.bytes > 0 ? child.bytes / frame.bytes * width : 0;
      if (share >= NARROWEST) below(child, at, share, depth + 1);
      at += share;
    }
  };
  const path = [];
  for (let at = zoomed.parent; at; at = at.parent) path.unshift(at);
  if (![...path, zoomed].some((frame) => frame.number === focused)) focused = zoomed.number;
  path.forEach((frame, depth) => place(frame, 0, 1, depth, true));
  below(zoomed, 0, 1, path.length);
  if (!boxes.some(([box]) => box.tabIndex === 0)) boxes[path.length][0].tabIndex = 0;
  const height = (Math.max(...boxes.map(([, depth]) => depth)) + 1) * ROW;
  fill("flame", make("div", { role: "tree", "aria-label": "Calls that own the memory, the oldest first",
    style: { height: height + "px" }, onclick: flameClick, onkeydown: flameKey }, boxes.map(([box]) => box)));
  sayFlame(zoomed);
}

function sayFlame(zoomed) {
  let said = zoomed === flameRoot ? "" : `Enlarged: ${zoomed.name}, ${bytes(zoomed.bytes)}. `;
  if (wanted) {
    const found = matched(flameRoot);
    said += `${bytes(found)} (${percent(found, flameRoot.bytes)}) in frames with "${wanted}".`;
  }
  document.getElementById("flame-said").textContent = said;
  document.getElementById("unzoom").disabled = zoomed === flameRoot;
}

function zoom(number) {
  if (number < 0) return;
  state.frame = number;
  focused = number;
  drawFlame();
}

function flameClick(event) {
  const box = event.target.closest("[data-frame]");
  if (box) zoom(Number(box.dataset.frame));
}

function focusFrame(frame) {
  const box = frame && document.querySelector(`#flame [data-frame="${frame.number}"]`);
  if (!box) return;
  document.querySelectorAll("#flame [tabindex='0']").forEach((other) => { other.tabIndex = -1; });
  box.tabIndex = 0;
  focused = frame.number;
  box.focus();
}

function flameKey(event) {
  const box = event.target.closest("[data-frame]");
  const frame = box && findFrame(flameRoot, Number(box.dataset.frame));
  if (!frame) return;
  const beside = (by) => frame.parent && frame.parent.children[frame.parent.children.indexOf(frame) + by];
  const widest = () => frame.children.reduce((best, of) => (!best || of.bytes > best.bytes ? of : best), null);
  const moves = { ArrowDown: widest, ArrowUp: () => frame.parent, ArrowLeft: () => beside(-1),
    ArrowRight: () => beside(1), Home: () => flameRoot };
  if (moves[event.key]) focusFrame(moves[event.key]());
  else if (event.key === "Enter" || event.key === " ") zoom(frame.number);
  else if (event.key === "Escape") zoom(0);
  else return;
  event.preventDefault();
  if (["Enter", " ", "Escape"].includes(event.key)) focusFrame(findFrame(flameRoot, state.frame));
}

function startFlame() {
  const search = make("input", { type: "search", id: "flame-search", oninput: (event) => {
    wanted = event.target.value.trim().toLowerCase();
    drawFlame();
  } });
  fill("flame-bar", make("label", {}, ["Search frames", search]),
    make("button", { type: "button", id: "unzoom", text: "Show all", onclick: () => zoom(0) }),
    make("span", { class: "faint", text: "Click or Enter enlarges a frame; arrow keys go to callers, calls and neighbours; Escape shows all." }));
}
