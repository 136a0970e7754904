// Buttons, lists, keys and the pointer; and the beginning of it all.

const LEGEND_SIZE = [30, 16];

// A small picture for the legend, drawn as the network is.
function sample(draw) {
  const canvas = document.createElement("canvas");
  [canvas.style.width, canvas.style.height] = LEGEND_SIZE.map((size) => `${size}px`);
  draw(contextOf(canvas, ...LEGEND_SIZE));
  canvas.setAttribute("aria-hidden", "true");
  return canvas;
}

function line(context, colour, width, dash) {
  context.setLineDash(dash);
  context.strokeStyle = colour;
  context.lineWidth = width;
  context.beginPath();
  context.moveTo(0, 8);
  context.lineTo(LEGEND_SIZE[0], 8);
  context.stroke();
  context.setLineDash([]);
}

function disc(context, colours, isFull, share) {
  context.beginPath();
  context.arc(15, 8, 6.5, 0, 2 * Math.PI);
  context.fillStyle = isFull ? colours.done : colours.node;
  context.fill();
  context.strokeStyle = isFull ? colours.done : colours["node-edge"];
  context.lineWidth = 1;
  context.stroke();
  if (isFull) return;
  context.beginPath();
  context.arc(15, 8, 6.5, -Math.PI / 2, -Math.PI / 2 + share * 2 * Math.PI);
  context.strokeStyle = colours.done;
  context.lineWidth = 2.6;
  context.stroke();
}

function buildLegend() {
  const { colours } = state;
  const items = [];
  if (state.show === "now") {
    items.push([(c) => { line(c, colours.reduce, 3, DASHES); drawMarks(c, [[15, 8, 0]], 5, true, colours); }, "REDUCE adds"]);
    items.push([(c) => { line(c, colours.gather, 3, []); drawMarks(c, [[15, 8, 0]], 5, false, colours); }, "GATHER delivers"]);
  } else {
    const spans = state.run.inCycles ? ["to 20 %", "40 %", "60 %", "80 %", "100 %"] : ["to 1/5", "2/5", "3/5", "4/5", "of the most"];
    spans.forEach((text, i) => items.push([(c) => line(c, colours[`load-${i + 1}`], 1.6 + 1.2 * i, []), text]));
  }
  items.push([(c) => disc(c, colours, false, 0.4), "part arrived"]);
  items.push([(c) => disc(c, colours, true, 1), "done"]);
  $("legend").replaceChildren(...items.map(([draw, text]) => {
    const item = document.createElement("li");
    item.append(sample(draw), text);
    return item;
  }));
}

function option(value, text) {
  const made = document.createElement("option");
  made.value = value;
  made.textContent = text;
  return made;
}

function fillLists() {
  const { run } = state;
  const nodes = Array.from({ length: run.numNodes }, (_, node) => node);
  $("node").replaceChildren(...nodes.map((node) =>
    option(node, `${node < run.header.num_ranks ? "Rank" : "Switch"} ${labelOf(run, node)}`)));
  const trees = Array.from(run.flowRoot, (root, tree) => option(tree, `${tree}, root ${root}`));
  $("tree").replaceChildren(option(-1, "all trees"), ...trees);
  $("speed").replaceChildren(...SPEEDS.map((speed) => option(speed, `${speed} ×`)));
}

function fillFacts() {
  const { header, numRows } = state.run;
  const facts = [
    ...(header.root === null ? [] : [`root ${header.root}`]), counted(header.num_ranks, "rank"), ...(header.num_switches ? [`${header.num_switches} switches`] : []),
    counted(header.num_links, "directed link"), counted(header.num_flows, "tree"), counted(numRows, "message"),
    counted(header.num_steps, "step"),
    ...(header.num_waves > 1 ? [`${header.num_waves} waves, one every ${header.period === 1 ? "step" : `${header.period} steps`}`] : []),
  ];
  if (state.run.inCycles) {
    const microseconds = header.cycles / header.clock_ghz / 1000;
    const speed = header.size_bytes / microseconds / 1000;
    facts.push(`${grouped(header.size_bytes)} bytes a rank`, `${grouped(header.cycles)} cycles, engine ${header.engine}`);
    for (const limit of header.limits) facts.push(`limited: ${limit}`);
    if (header.dependency === "submessage") facts.push("cut-through: rows wait for sub-messages");
    facts.push(`${microseconds.toPrecision(4)} µs, ${speed.toPrecision(4)} GB/s`, `links used ${(100 * header.link_utilization).toFixed(1)} %`);
  }
  facts.push(`schedule ${header.schedule_hash.slice(0, 12)}`);
  $("facts").textContent = facts.map((fact) => fact.replaceAll(" ", "\u00a0")).join(" · ");
  $("keys-arrows").textContent = state.run.inCycles
    ? "a hundredth of the run; with Shift to the next message that leaves or comes in"
    : "one step back and forward";
}

// --- pointer ---------------------------------------------------------------------------------

function placeOf(event) {
  const box = $("drawing").getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
}

function hover(event) {
  const [x, y] = placeOf(event);
  const found = state.view && foundAt(state, x, y);
  state.hovered = found;
  const tip = $("tip");
  tip.hidden = !found;
  if (found) {
    tip.textContent = tipOf(state.run, state.moment, found);
    const box = $("drawing").getBoundingClientRect();
    tip.style.left = `${Math.min(x + 14, Math.max(box.width - tip.offsetWidth - 6, 0))}px`;
    tip.style.top = `${y + 16 + tip.offsetHeight > box.height ? Math.max(y - tip.offsetHeight - 10, 0) : y + 16}px`;
  }
  refresh();
}

function listenToPointer() {
  const drawing = $("drawing");
  let grabbed = null;
  drawing.addEventListener("pointerdown", (event) => {
    grabbed = { x: event.clientX, y: event.clientY, pan: { ...state.pan }, moved: false };
    if (state.zoom > 1) drawing.setPointerCapture(event.pointerId);
  });
  drawing.addEventListener("pointermove", (event) => {
    if (!grabbed || state.zoom === 1) return hover(event);
    const [dx, dy] = [event.clientX - grabbed.x, event.clientY - grabbed.y];
    grabbed.moved ||= Math.hypot(dx, dy) > 4;
    state.pan = { x: grabbed.pan.x + dx, y: grabbed.pan.y + dy };
    refresh();
  });
  drawing.addEventListener("pointerup", (event) => {
    const found = grabbed && !grabbed.moved && foundAt(state, ...placeOf(event));
    grabbed = null;
    if (found && found.node !== undefined) choose(found.node);
  });
  for (const end of ["pointerleave", "pointercancel"]) {
    drawing.addEventListener(end, () => {
      [state.hovered, grabbed] = [null, null];
      $("tip").hidden = true;
      refresh();
    });
  }
  drawing.addEventListener("wheel", (event) => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    zoomBy(event.deltaY < 0 ? 1.2 : 1 / 1.2);
  }, { passive: false });
}

// --- keys ------------------------------------------------------------------------------------

const MOVES = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

// Keys that act everywhere but in lists and tables, which have their own.
const KEYS = {
  " ": () => (state.playing ? pause() : play()),
  ArrowLeft: (event) => nudge(-1, event.shiftKey),
  ArrowRight: (event) => nudge(1, event.shiftKey),
  PageUp: () => seek(state.time - state.run.duration / 10),
  PageDown: () => seek(state.time + state.run.duration / 10),
  Home: () => { pause(); seek(0); },
  End: () => { pause(); seek(state.run.duration); },
  Escape: () => pickTree(-1),
};
const LETTERS = {
  "[": () => pickTree(state.tree - 1),
  "]": () => pickTree(state.tree + 1),
  l: () => showOnLinks(SHOWS[(SHOWS.indexOf(state.show) + 1) % SHOWS.length]),
  n: () => showNumbers(!state.numbers),
  s: () => faster(1),
  S: () => faster(-1),
  "+": () => zoomBy(1.4),
  "-": () => zoomBy(1 / 1.4),
  0: () => zoomBy(0),
  d: () => $("drawing").focus(),
  "?": () => $("keys").showModal(),
};

function onKey(event) {
  if (event.ctrlKey || event.altKey || event.metaKey || $("keys").open) return;
  const target = event.target;
  const isList = target.matches("select, input[type=radio]");
  const scrolls = target.matches(".scroll");
  const presses = target.matches("button, input[type=checkbox], a");
  let act = KEYS[event.key];
  if (target.id === "drawing" && MOVES[event.key]) {
    act = () => choose(neighbourIn(state.run, state.chosen, ...MOVES[event.key]));
  }
  if (isList || (scrolls && event.key !== " ") || (presses && event.key === " ")) act = event.key === "Escape" ? act : null;
  if (!act && $("letters").checked && !(target.matches("select") && event.key.length === 1)) act = LETTERS[event.key];
  if (!act) return;
  event.preventDefault();
  act(event);
}

// --- beginning -------------------------------------------------------------------------------

function listen() {
  const acts = {
    first: KEYS.Home, back: () => nudge(-1, false), play: KEYS[" "], forward: () => nudge(1, false), last: KEYS.End,
    "tree-previous": LETTERS["["], "tree-next": LETTERS["]"],
    "zoom-in": LETTERS["+"], "zoom-out": LETTERS["-"], "zoom-fit": LETTERS[0],
    help: LETTERS["?"], theme: () => setTheme(THEMES[(THEMES.indexOf(state.theme) + 1) % THEMES.length]),
  };
  for (const [id, act] of Object.entries(acts)) $(id).addEventListener("click", act);
  $("scrubber").addEventListener("input", () => { pause(); seek(Number($("scrubber").value)); });
  $("tree").addEventListener("change", () => pickTree(Number($("tree").value)));
  $("node").addEventListener("change", () => choose(Number($("node").value)));
  $("speed").addEventListener("change", () => setSpeed(Number($("speed").value)));
  $("numbers").addEventListener("change", () => showNumbers($("numbers").checked));
  for (const input of document.querySelectorAll('input[name="show"]')) {
    input.addEventListener("change", () => showOnLinks(input.value));
  }
  document.addEventListener("keydown", onKey);
  night.addEventListener("change", () => setTheme(state.theme));
  window.addEventListener("hashchange", openAddress);
  new ResizeObserver(refresh).observe($("drawing"));
  listenToPointer();
}

// Show what the address asks for.
function openAddress() {
  const wanted = readAddress();
  state.time = wanted.time;
  pickTree(wanted.tree);
  showOnLinks(wanted.show);
  choose(wanted.node);
}

async function begin() {
  setTheme("auto");
  state.run = runOf(unpacked(await inflated($("data").textContent)));
  state.paths = pathsOf(state.run);
  state.bounds = boundsOf(state.run);
  $("scrubber").max = state.run.duration;
  // A wide drawing gets more of the width, unless tables have long names in them.
  $("main").classList.toggle("wide", !state.run.header.names && state.bounds.width > 1.6 * state.bounds.height);
  fillLists();
  fillFacts();
  setSpeed(1);
  openAddress();
  showPlaying();
  listen();
  document.documentElement.dataset.ready = "yes";
}

function complain(error) {
  $("problem").textContent = `This page cannot be played: ${error.message || error}`;
  $("problem").hidden = false;
}

window.addEventListener("error", (event) => complain(event.error || event.message));
begin().catch(complain);
