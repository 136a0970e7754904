// The network on a canvas: idle links, load or messages, nodes, and what is picked out.

const MOST_RADIUS = 30; // pixels of a node that is not enlarged
const LEAST_TEXT = 6.5; // pixels; smaller text is left out
const DASHES = [6, 3];
const COLOURS = [
  "link", "reduce", "gather", "done", "on-done", "chosen", "node", "node-edge", "switch", "ink", "muted",
  "halo", "card", "load-1", "load-2", "load-3", "load-4", "load-5", "rule",
];

// Colours of the page's theme, as the style sheet has them.
function coloursOf(element) {
  const style = getComputedStyle(element);
  return Object.fromEntries(COLOURS.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}

// Size a canvas for the screen's pixels, and give its context in CSS pixels.
function contextOf(canvas, width, height) {
  const dots = window.devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * dots) || canvas.height !== Math.round(height * dots)) {
    canvas.width = Math.round(width * dots);
    canvas.height = Math.round(height * dots);
  }
  const context = canvas.getContext("2d");
  context.setTransform(dots, 0, 0, dots, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

// The rectangle that a drawing needs, in its units.
function boundsOf(run) {
  const [low, high] = [(a, b) => Math.min(a, b), (a, b) => Math.max(a, b)];
  const reach = (way, axis) => [...run.node[axis], ...run.curve[axis]].reduce(way);
  const hasStubs = run.link.isStub.some((is) => is);
  const margin = run.node.radius + (hasStubs ? 0.42 : 0.3);
  const [left, top] = [reach(low, "x") - margin, reach(low, "y") - margin];
  const [right, bottom] = [reach(high, "x") + margin, reach(high, "y") + margin];
  return { left, top, width: right - left, height: bottom - top, radius: run.node.radius };
}

// From units to pixels: the whole drawing in the middle, or a larger part of it.
function viewOf(bounds, width, height, zoom, pan) {
  const fit = Math.min((width - 12) / bounds.width, (height - 12) / bounds.height);
  const scale = Math.min(fit, MOST_RADIUS / bounds.radius) * zoom;
  const left = width / 2 - (bounds.left + bounds.width / 2) * scale + pan.x;
  const top = height / 2 - (bounds.top + bounds.height / 2) * scale + pan.y;
  return { scale, x: (x) => left + x * scale, y: (y) => top + y * scale };
}

// Draw everything. `scene` has run, paths, view, colours, moment, loads, show, tree, chosen, hovered,
// numbers, still.
function drawNetwork(context, scene) {
  context.lineCap = "butt";
  context.lineJoin = "round";
  context.textAlign = "center";
  context.textBaseline = "middle";
  drawIdle(context, scene);
  drawPicked(context, scene);
  if (scene.show === "now") {
    if (scene.tree >= 0) drawTree(context, scene);
    drawActive(context, scene);
  } else {
    drawLoads(context, scene);
  }
  drawNodes(context, scene);
  if (scene.show === "now") drawMessages(context, scene);
  drawFarEnds(context, scene);
  drawNumbers(context, scene);
  drawNames(context, scene);
}

// Add a link's line to the context's path.
function trace(context, { paths, view }, link) {
  const first = paths.offsets[link];
  for (let i = first; i < paths.offsets[link + 1]; i++) {
    const [x, y] = [view.x(paths.x[i]), view.y(paths.y[i])];
    if (i === first || i - first === paths.breaks[link]) context.moveTo(x, y);
    else context.lineTo(x, y);
  }
}

function strokeLinks(context, scene, links, colour, width, dash = []) {
  context.setLineDash(dash);
  context.strokeStyle = colour;
  context.lineWidth = width;
  context.beginPath();
  for (const link of links) trace(context, scene, link);
  context.stroke();
  context.setLineDash([]);
}

// Pixels that a busy link may take without touching its neighbour.
function laneWidth({ paths, view }) {
  return Math.min(Math.max(paths.lane * view.scale * 0.62, 1.6), 5);
}

function drawIdle(context, scene) {
  const links = Array.from(scene.run.link.src, (_, link) => link);
  context.globalAlpha = scene.tree >= 0 ? 0.55 : 1;
  strokeLinks(context, scene, links, scene.colours.link, scene.view.scale > 30 ? 1.3 : 0.9);
  context.globalAlpha = 1;
}

// The links of one tree: solid where a message is in, dotted where it is still to come.
function drawTree(context, scene) {
  const { run, colours, moment } = scene;
  const width = laneWidth(scene);
  for (const op of [0, 1]) {
    const [past, future] = [new Set(), new Set()];
    for (const row of run.byFlow.of(scene.tree)) {
      if (run.row.op[row] !== op) continue;
      const isIn = run.arrived[row] <= moment.time;
      for (const link of linksOf(run, row)) (isIn ? past : future).add(link);
    }
    const colour = op === REDUCE ? colours.reduce : colours.gather;
    strokeLinks(context, scene, future, colour, 1.4, [1.5, 4]);
    strokeLinks(context, scene, past, colour, width, op === REDUCE ? DASHES : []);
    for (const link of past) drawHead(context, scene, link, colour, width);
  }
}

// An arrow head at the end of a link.
function drawHead(context, { paths, view }, link, colour, width) {
  const at = pointAt(paths, link, 1);
  const size = width + 3.2;
  context.save();
  context.translate(view.x(at.x), view.y(at.y));
  context.rotate(at.angle);
  context.fillStyle = colour;
  context.beginPath();
  context.moveTo(2, 0);
  context.lineTo(-size, size * 0.62);
  context.lineTo(-size, -size * 0.62);
  context.fill();
  context.restore();
}

function linksOf(run, row) {
  return run.routes.links.subarray(run.routes.offsets[row], run.routes.offsets[row + 1]);
}

// Links with messages on them: dashed while they add, solid while they deliver.
function drawActive(context, scene) {
  const { run, moment, colours } = scene;
  const busy = [new Set(), new Set()];
  for (const message of moment.active) {
    const row = message % run.numRows;
    for (const link of linksOf(run, row)) busy[run.row.op[row]].add(link);
  }
  const width = laneWidth(scene);
  // Paler than the messages on them, which would not be seen where all links are busy.
  context.globalAlpha = scene.tree >= 0 ? 1 : 0.5;
  strokeLinks(context, scene, busy[0], colours.reduce, width, DASHES);
  strokeLinks(context, scene, busy[1], colours.gather, width);
  context.globalAlpha = 1;
}

// Links by load: the darker (or, on dark ground, lighter) and the wider, the more.
function drawLoads(context, scene) {
  const { loads, colours } = scene;
  const classes = [[], [], [], [], [], []];
  loads.share.forEach((share, link) => classes[classOf(share)].push(link));
  for (let level = 1; level < classes.length; level++) {
    const width = laneWidth(scene) * (0.45 + 0.2 * level);
    strokeLinks(context, scene, classes[level], colours[`load-${level}`], width);
    for (const link of classes[level]) drawHead(context, scene, link, colours[`load-${level}`], width);
  }
}

// The link under the pointer, and those that leave the chosen node.
function drawPicked(context, scene) {
  const { run, colours, hovered, chosen } = scene;
  if (scene.tree < 0) {
    context.globalAlpha = 0.3;
    strokeLinks(context, scene, run.linksFrom.of(chosen), colours.chosen, laneWidth(scene) + 4);
    context.globalAlpha = 1;
  }
  if (hovered && hovered.link !== undefined) {
    strokeLinks(context, scene, [hovered.link], colours.chosen, laneWidth(scene) + 1);
  }
}

// Messages: a diamond adds (REDUCE), a triangle delivers (GATHER).
function drawMessages(context, scene) {
  const { run, paths, view, moment, colours, still } = scene;
  const size = Math.min(Math.max(paths.lane * view.scale * 0.62, view.scale > 40 ? 4.4 : 3), 7);
  const places = [[], []];
  for (const message of moment.active) {
    const row = message % run.numRows;
    const taken = run.arrived[message] - run.sent[message];
    const part = still || !taken ? REST : (moment.time - run.sent[message]) / taken;
    const { x, y, angle } = messageAt(run, paths, row, part);
    places[run.row.op[row]].push([view.x(x), view.y(y), angle]);
  }
  places.forEach((of, op) => drawMarks(context, of, size, op === REDUCE, colours));
}

const DIAMOND = [[1, 0], [0, 1], [-1, 0], [0, -1]];
const TRIANGLE = [[1.2, 0], [-0.8, 1], [-0.8, -1]];

// Marks of messages, each a place and a direction.
function drawMarks(context, places, size, isReduce, colours) {
  context.fillStyle = isReduce ? colours.card : colours.gather;
  context.strokeStyle = isReduce ? colours.reduce : colours.card;
  context.lineWidth = isReduce ? Math.max(size * 0.36, 1.3) : 1;
  for (const [x, y, angle] of places) {
    const [cos, sin] = [size * Math.cos(angle), size * Math.sin(angle)];
    context.beginPath();
    (isReduce ? DIAMOND : TRIANGLE).forEach(([ahead, aside], i) => {
      const [px, py] = [x + ahead * cos - aside * sin, y + ahead * sin + aside * cos];
      if (i) context.lineTo(px, py);
      else context.moveTo(px, py);
    });
    context.closePath();
    context.fill();
    context.stroke();
  }
}

// Nodes: ranks round with the part of their messages that is in, switches square.
function drawNodes(context, scene) {
  const { run, view } = scene;
  const radius = Math.max(run.node.radius * view.scale, 2.5);
  for (let node = 0; node < run.numNodes; node++) {
    const [x, y] = [view.x(run.node.x[node]), view.y(run.node.y[node])];
    if (node < run.header.num_ranks) drawRank(context, scene, node, x, y, radius);
    else drawSwitch(context, scene, node, x, y, radius);
    if (node === scene.chosen) drawChosen(context, scene, x, y, radius);
  }
}

function drawRank(context, scene, node, x, y, radius) {
  const { run, colours, moment } = scene;
  const expected = scene.expected[node];
  const share = expected ? moment.arrivals[node] / expected : 0;
  const isDone = scene.tree < 0 ? run.doneAt[node] <= moment.time : expected > 0 && share >= 1;
  context.beginPath();
  context.arc(x, y, radius, 0, 2 * Math.PI);
  context.fillStyle = isDone ? colours.done : colours.node;
  context.fill();
  context.lineWidth = Math.max(radius * 0.09, 1);
  context.strokeStyle = isDone ? colours.done : colours["node-edge"];
  context.stroke();
  if (share > 0 && !isDone) {
    context.beginPath();
    context.arc(x, y, radius, -Math.PI / 2, -Math.PI / 2 + share * 2 * Math.PI);
    context.lineWidth = Math.max(radius * 0.26, 2);
    context.strokeStyle = colours.done;
    context.stroke();
  }
  if (scene.tree >= 0 && run.flowRoot[scene.tree] === node) {
    context.beginPath();
    context.arc(x, y, radius + 3.5, 0, 2 * Math.PI);
    context.lineWidth = 1.8;
    context.strokeStyle = colours.ink;
    context.stroke();
  }
  drawLabel(context, node, x, y, radius, isDone ? colours["on-done"] : colours.ink);
}

function drawSwitch(context, scene, node, x, y, radius) {
  const { colours } = scene;
  const half = radius * 0.95;
  context.beginPath();
  context.roundRect(x - half, y - half, 2 * half, 2 * half, half * 0.3);
  context.fillStyle = colours.switch;
  context.fill();
  context.lineWidth = Math.max(radius * 0.09, 1);
  context.strokeStyle = colours["node-edge"];
  context.stroke();
  drawLabel(context, node, x, y, radius, colours.muted);
}

function drawLabel(context, node, x, y, radius, colour) {
  const text = String(node);
  const size = Math.min(radius * (text.length > 2 ? 0.82 : 1), 17);
  if (size < LEAST_TEXT) return;
  context.font = `600 ${size}px system-ui, sans-serif`;
  context.fillStyle = colour;
  context.fillText(text, x, y + size * 0.05);
}

function drawChosen(context, scene, x, y, radius) {
  context.beginPath();
  context.arc(x, y, radius + 5, 0, 2 * Math.PI);
  context.lineWidth = 2.6;
  context.strokeStyle = scene.colours.chosen;
  context.stroke();
}

// At the outer end of a stub, the node at the other end of the link.
function drawFarEnds(context, scene) {
  const { run, view, colours } = scene;
  const size = Math.min(0.2 * view.scale, 11);
  if (size < LEAST_TEXT) return;
  context.font = `${size}px system-ui, sans-serif`;
  context.fillStyle = colours.muted;
  for (let link = 0; link < run.link.src.length; link++) {
    if (!run.link.isStub[link]) continue;
    const corner = run.link.corners[link];
    const src = run.link.src[link];
    const [dx, dy] = [run.curve.x[corner] - run.node.x[src], run.curve.y[corner] - run.node.y[src]];
    const beyond = 1 + 0.17 / Math.hypot(dx, dy);
    const [x, y] = [run.node.x[src] + dx * beyond, run.node.y[src] + dy * beyond];
    context.fillText(String(run.link.dst[link]), view.x(x), view.y(y));
  }
}

// Numbers on links: of all loaded ones on demand, else of those that carry more than one message.
function drawNumbers(context, scene) {
  const { run, paths, view, loads, show, numbers } = scene;
  const size = Math.min(Math.max(view.scale * 0.15, 9), 12);
  context.font = `600 ${size}px system-ui, sans-serif`;
  for (let link = 0; link < run.link.src.length; link++) {
    const amount = loads.amounts[link];
    const wanted = numbers ? amount > 0 : show === "now" && amount > 1;
    const isLong = lengthOf(paths, link) * view.scale > 22;
    const isPicked = scene.hovered && scene.hovered.link === link;
    if ((wanted && isLong) || isPicked) drawNumber(context, scene, link, size);
  }
}

function drawNumber(context, { run, paths, view, loads, colours }, link, size) {
  // The numbers of both directions stand apart, one third along each.
  const at = pointAt(paths, link, run.link.isStub[link] ? 0.3 : 0.36);
  const [x, y] = [view.x(at.x), view.y(at.y)];
  const width = context.measureText(loads.text[link]).width + 5;
  context.fillStyle = colours.halo;
  context.globalAlpha = 0.88;
  context.fillRect(x - width / 2, y - size * 0.6, width, size * 1.2);
  context.globalAlpha = 1;
  context.fillStyle = colours.ink;
  context.fillText(loads.text[link], x, y + size * 0.05);
}

// The node or link at a place of the drawing, or null.
function foundAt({ run, paths, view }, x, y) {
  const reach = Math.max(run.node.radius * view.scale, 9) + 3;
  for (let node = 0; node < run.numNodes; node++) {
    if (Math.hypot(view.x(run.node.x[node]) - x, view.y(run.node.y[node]) - y) < reach) return { node };
  }
  let [best, nearest] = [null, 6];
  for (let link = 0; link < run.link.src.length; link++) {
    for (let i = paths.offsets[link] + 1; i < paths.offsets[link + 1]; i++) {
      if (i - paths.offsets[link] === paths.breaks[link]) continue;
      const far = fromSegment(x, y, view.x(paths.x[i - 1]), view.y(paths.y[i - 1]), view.x(paths.x[i]), view.y(paths.y[i]));
      if (far < nearest) [best, nearest] = [{ link }, far];
    }
  }
  return best;
}

function fromSegment(x, y, ax, ay, bx, by) {
  const square = (bx - ax) ** 2 + (by - ay) ** 2;
  const t = square ? Math.min(Math.max(((x - ax) * (bx - ax) + (y - ay) * (by - ay)) / square, 0), 1) : 0;
  return Math.hypot(ax + t * (bx - ax) - x, ay + t * (by - ay) - y);
}

// The nearest node in a direction, for arrow keys; the same one where there is none.
function neighbourIn(run, from, dx, dy) {
  let [best, least] = [from, Infinity];
  for (let node = 0; node < run.numNodes; node++) {
    const [x, y] = [run.node.x[node] - run.node.x[from], run.node.y[node] - run.node.y[from]];
    const ahead = x * dx + y * dy;
    const aside = Math.abs(x * dy - y * dx);
    const cost = ahead + 2.2 * aside;
    if (ahead > 0.05 && aside <= 2 * ahead && cost < least) [best, least] = [node, cost];
  }
  return best;
}
