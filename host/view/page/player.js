// Controls, keys and the clock; everything that changes goes through `show`.

const SPEEDS = [0.25, 0.5, 1, 2, 4, 8, 16];
const SECONDS_OF_RUN = 24; // at speed 1, of a trace; of a schedule a step takes a second
const STILL_SECONDS = 0.7; // from picture to picture with reduced motion
const ACTIVITY_HEIGHT = 36;
const MOST_BINS = 500;
const ADDRESS_MS = 250; // browsers refuse addresses that change more often than some 100 times in 30 s
const WRITING_MS = 120;
const REST = 0.62; // where in a step pictures rest: messages of both directions stand apart
const SHOWS = ["now", "far", "all"];
const ICONS = { play: "M4 2v12l10-6z", pause: "M4 2h3v12H4zM9 2h3v12H9z" };
const THEMES = ["auto", "light", "dark"];

const $ = (id) => document.getElementById(id);
const calm = window.matchMedia("(prefers-reduced-motion: reduce)");
const night = window.matchMedia("(prefers-color-scheme: dark)");

const state = {
  run: null, paths: null, bounds: null, view: null, colours: null,
  time: 0, playing: false, speed: 1, tree: -1, chosen: 0, show: "now", numbers: false,
  hovered: null, zoom: 1, pan: { x: 0, y: 0 }, theme: "auto", events: null,
  moment: null, loads: null, expected: null, entries: [], ports: [], activity: null,
  frame: 0, clock: 0, spokenAt: 0, writtenAt: 0, followed: -1, addressing: 0,
};

// --- what is shown ---------------------------------------------------------------------------

// Ask for a new picture; several changes at once are drawn once.
function refresh() {
  if (!state.frame) state.frame = requestAnimationFrame(paint);
}

function paint() {
  state.frame = 0;
  const { run } = state;
  state.moment = momentAt(run, state.time, state.tree);
  state.loads = loadsOf(run, state.moment, state.show);
  paintNetwork();
  paintActivity();
  // Words and tables need not change as often as the drawing does.
  const now = performance.now();
  if (state.playing && now - state.writtenAt < WRITING_MS) return;
  state.writtenAt = now;
  write();
}

// Everything that is text: time, table, links of the node, summary.
function write() {
  const { run } = state;
  const [strong, weak] = readoutOf(run, state.time);
  $("readout").replaceChildren(strong, " ", cell("small", weak));
  $("scrubber").value = state.time;
  $("scrubber").setAttribute("aria-valuetext", `${strong} ${weak}`);
  const open = updateTable(run, state.entries, state.time, state.tree);
  if (state.time !== state.followed && open) keepInSight($("rows-scroll"), open);
  state.followed = state.time;
  updatePorts(state.ports, state.moment);
  speak(summaryOf(run, state.moment, state.loads, state.chosen));
}

function paintNetwork() {
  const box = $("drawing").getBoundingClientRect();
  const context = contextOf($("network"), box.width, box.height);
  state.view = viewOf(state.bounds, box.width, box.height, state.zoom, state.pan);
  drawNetwork(context, { ...state, still: calm.matches && state.playing });
}

// The summary is always on the page; it is spoken at once when paused, else every four seconds.
function speak(text) {
  $("summary").textContent = text;
  const now = performance.now();
  if (!state.playing || now - state.spokenAt > 4000) {
    if ($("live").textContent !== text) $("live").textContent = text;
    state.spokenAt = now;
  }
}

// Scroll a table, and nothing but the table, so that a row is seen.
function keepInSight(box, line) {
  const head = box.querySelector("thead").offsetHeight;
  const [top, bottom] = [line.offsetTop - head, line.offsetTop + line.offsetHeight];
  if (top < box.scrollTop || bottom > box.scrollTop + box.clientHeight) box.scrollTop = top - 2 * line.offsetHeight;
}

function paintActivity() {
  const canvas = $("activity");
  const { width } = canvas.getBoundingClientRect();
  const context = contextOf(canvas, width, ACTIVITY_HEIGHT);
  if (!state.activity) {
    state.activity = activityOf(state.run, Math.min(state.run.duration, MOST_BINS), state.tree);
  }
  drawActivity(context, state.activity, state.colours, width, state.time / state.run.duration);
}

// Messages in flight over time: those that deliver on top of those that add, which are hatched.
function drawActivity(context, [adds, delivers], colours, width, at) {
  const [left, inner, height] = [8, width - 16, ACTIVITY_HEIGHT - 2];
  let most = 1;
  adds.forEach((count, i) => (most = Math.max(most, count + delivers[i])));
  const step = inner / adds.length;
  const gap = step > 6 ? 1 : 0;
  adds.forEach((count, i) => {
    const [low, high] = [(count / most) * (height - 4), (delivers[i] / most) * (height - 4)];
    context.fillStyle = colours.reduce;
    for (let y = height - 2; low > 0 && y >= height - low; y -= 4) {
      context.fillRect(left + i * step, y - 1, step - gap, Math.min(2.5, low));
    }
    context.fillStyle = colours.gather;
    context.fillRect(left + i * step, height - low - high, step - gap, high);
  });
  context.fillStyle = colours.rule;
  context.fillRect(left, height, inner, 1);
  context.fillStyle = colours.chosen;
  context.fillRect(left + at * inner - 1, 0, 2, ACTIVITY_HEIGHT);
}

// --- time ------------------------------------------------------------------------------------

function seek(time) {
  state.time = Math.min(Math.max(time, 0), state.run.duration);
  refresh();
  keepAddress();
}

// One back or forward: from step to step, or a hundredth of a trace; `fine` is from one event of the
// trace to the next.
function nudge(direction, fine) {
  const { run, time } = state;
  pause();
  if (!run.inCycles) {
    const place = direction > 0 ? Math.floor(time - REST) + 1 : Math.ceil(time - REST) - 1;
    seek(place < 0 ? 0 : place >= run.duration ? run.duration : place + REST);
  } else if (fine) {
    state.events = state.events || eventsOf(run);
    const later = state.events.find((event) => event > time);
    const earlier = state.events.findLast((event) => event < time);
    seek(direction > 0 ? later ?? run.duration : earlier ?? 0);
  } else {
    seek(Math.round(time + direction * Math.max(run.duration / 100, 1)));
  }
}

function play() {
  if (state.time >= state.run.duration) state.time = 0;
  state.playing = true;
  state.clock = performance.now();
  showPlaying();
  requestAnimationFrame(tick);
}

function pause() {
  if (!state.playing) return;
  state.playing = false;
  showPlaying();
  refresh();
  keepAddress();
}

function showPlaying() {
  $("play-text").textContent = state.playing ? "Pause" : "Play";
  $("play-icon").setAttribute("d", state.playing ? ICONS.pause : ICONS.play);
}

// Go on by the time that has passed; with reduced motion from picture to picture.
function tick(now) {
  if (!state.playing) return;
  const { run } = state;
  const perSecond = (run.inCycles ? run.duration / SECONDS_OF_RUN : 1) * state.speed;
  const passed = (now - state.clock) / 1000;
  const isDue = !calm.matches || passed >= STILL_SECONDS / Math.max(state.speed, 1);
  if (isDue && passed > 0) {
    state.clock = now;
    let next = state.time + passed * perSecond;
    if (calm.matches && !run.inCycles) next = Math.floor(state.time - REST) + 1 + REST;
    state.time = Math.min(next, run.duration);
    if (state.time >= run.duration) pause();
    refresh();
  }
  requestAnimationFrame(tick);
}

// --- choices ---------------------------------------------------------------------------------

function choose(node) {
  state.chosen = node;
  const { run } = state;
  const isRank = node < run.header.num_ranks;
  $("node").value = node;
  $("node-title").textContent = `${isRank ? "Rank" : "Switch"} ${labelOf(run, node)}`;
  state.followed = -1;
  state.entries = isRank ? buildTable(run, $("rows"), node) : [];
  showPorts();
  $("rows-scroll").hidden = !isRank;
  const trees = isRank ? Array.from(run.flowRoot.keys()).filter((flow) => run.flowRoot[flow] === node) : [];
  const rows = counted(state.entries.length, "row");
  $("node-facts").textContent = isRank
    ? `${rows} in its table, receives ${counted(run.totals.arrivals[node], "message")}; ${rootText(trees)}.`
    : "A switch has no table: messages carry their route.";
  refresh();
  keepAddress();
}

function showPorts() {
  const { run, chosen, tree } = state;
  $("ports-title").textContent = tree < 0 ? "Links that leave it" : `Links that leave it, tree ${tree} only`;
  state.ports = buildPorts(run, $("ports"), chosen, tree);
}

function rootText(trees) {
  if (!trees.length) return "root of no tree";
  const named = trees.slice(0, 6).join(", ") + (trees.length > 6 ? ", …" : "");
  return `root of ${trees.length === 1 ? "tree" : "trees"} ${named}`;
}

function pickTree(tree) {
  const { run } = state;
  const count = run.header.num_flows;
  state.tree = tree < -1 ? count - 1 : tree >= count ? -1 : tree;
  state.activity = null;
  state.expected = run.totals.arrivals;
  if (state.tree >= 0) {
    state.expected = new Int32Array(run.numNodes);
    for (const row of run.byFlow.of(state.tree)) state.expected[run.row.dst[row]] += run.numWaves;
  }
  $("tree").value = state.tree;
  state.followed = -1;
  showPorts();
  refresh();
  keepAddress();
}

function showOnLinks(what) {
  state.show = what;
  document.querySelector(`input[name="show"][value="${what}"]`).checked = true;
  buildLegend();
  refresh();
  keepAddress();
}

function showNumbers(are) {
  state.numbers = are;
  $("numbers").checked = are;
  refresh();
}

function setSpeed(speed) {
  state.speed = speed;
  $("speed").value = speed;
}

function faster(by) {
  const place = SPEEDS.indexOf(state.speed) + by;
  setSpeed(SPEEDS[Math.min(Math.max(place, 0), SPEEDS.length - 1)]);
}

function zoomBy(factor) {
  const zoom = factor ? Math.min(Math.max(state.zoom * factor, 1), 12) : 1;
  const change = zoom / state.zoom;
  state.pan = zoom === 1 ? { x: 0, y: 0 } : { x: state.pan.x * change, y: state.pan.y * change };
  state.zoom = zoom;
  $("drawing").style.touchAction = zoom > 1 ? "none" : "pan-y";
  refresh();
}

function setTheme(theme) {
  state.theme = theme;
  const isDark = theme === "dark" || (theme === "auto" && night.matches);
  document.documentElement.dataset.theme = isDark ? "dark" : "light";
  $("theme").textContent = `Theme: ${theme}`;
  state.colours = coloursOf(document.documentElement);
  if (state.run) {
    buildLegend();
    refresh();
  }
}

// The address says what is shown, so that a link to a moment can be kept and passed on.
function keepAddress() {
  clearTimeout(state.addressing);
  if (!state.playing) state.addressing = setTimeout(writeAddress, ADDRESS_MS);
}

function writeAddress() {
  const parts = { time: +state.time.toFixed(3), node: state.chosen, tree: state.tree, show: state.show };
  history.replaceState(null, "", `#${new URLSearchParams(parts)}`);
}

function readAddress() {
  const given = new URLSearchParams(location.hash.slice(1));
  const number = (name, most, otherwise) => {
    const value = parseFloat(given.get(name));
    return value >= 0 && value <= most ? value : otherwise;
  };
  const { run } = state;
  return {
    time: number("time", run.duration, run.inCycles ? 0 : REST),
    node: Math.floor(number("node", run.numNodes - 1, 0)),
    tree: Math.floor(number("tree", run.header.num_flows - 1, -1)),
    show: SHOWS.includes(given.get("show")) ? given.get("show") : "now",
  };
}
