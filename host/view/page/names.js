// Names of nodes on the canvas, where they cover nothing.

const NAME_PIXELS = 11;

// Names of nodes, above all else: the chosen one's and that under the pointer first and always, others
// where they cover no node and no other name.
function drawNames(context, scene) {
  const { run, view, chosen, hovered } = scene;
  const radius = Math.max(run.node.radius * view.scale, 2.5);
  const nodes = Array.from(run.node.x, (x, node) => boxAt(view.x(x), view.y(run.node.y[node]), 2 * radius, 2 * radius));
  const first = hovered && hovered.node !== undefined ? [chosen, hovered.node] : [chosen];
  context.font = `${NAME_PIXELS}px system-ui, sans-serif`;
  const covered = [...nodes];
  const dots = window.devicePixelRatio || 1;
  const [wide, high] = [context.canvas.width / dots, context.canvas.height / dots];
  const shown = boxAt(wide / 2, high / 2, wide, high);
  for (const node of new Set([...first, ...nodes.keys()])) {
    const must = first.includes(node);
    const text = nameOf(run, node, must, radius);
    if (!text || !(must || radius > 9)) continue;
    const width = context.measureText(text).width + 4;
    const [x, y] = [view.x(run.node.x[node]), view.y(run.node.y[node])];
    const away = radius + (node === chosen ? 6 : 0);
    const boxes = sidesOf(run, node).map(([right, down]) =>
      boxAt(x + right * (away + 7 + width / 2), y + down * (away + 9), width, NAME_PIXELS + 3));
    const inside = boxes.filter((each) => within(each, shown));
    const free = inside.find((each) => !covered.some((other) => overlap(each, other)));
    const box = free ?? (must ? inside[0] ?? boxes[0] : null);
    if (!box) continue;
    covered.push(box);
    drawName(context, scene, text, box);
  }
}

// Below, above, right and left of a node, the side that its links lead away from first.
function sidesOf(run, node) {
  let [x, y] = [0, 0];
  for (const link of run.linksFrom.of(node)) {
    const [dx, dy] = [run.node.x[run.link.dst[link]] - run.node.x[node], run.node.y[run.link.dst[link]] - run.node.y[node]];
    const length = Math.hypot(dx, dy) || 1;
    [x, y] = [x + dx / length, y + dy / length];
  }
  const pull = ([right, down]) => Math.round(2 * (right * x + down * y));
  return [[0, 1], [0, -1], [1, 0], [-1, 0]].sort((one, other) => pull(one) - pull(other));
}

// A node's name as far as it is short; of one that is picked out its number, where that is not in it.
function nameOf(run, node, must, radius) {
  const name = run.header.names?.[node];
  if (name) return name.length > 14 && !must ? `${name.slice(0, 13)}…` : name;
  return must && radius * 0.82 < LEAST_TEXT ? String(node) : "";
}

function boxAt(x, y, width, height) {
  return { x, y, width, height };
}

function overlap(one, other) {
  return 2 * Math.abs(one.x - other.x) < one.width + other.width && 2 * Math.abs(one.y - other.y) < one.height + other.height;
}

function within(one, other) {
  return 2 * Math.abs(one.x - other.x) <= other.width - one.width && 2 * Math.abs(one.y - other.y) <= other.height - one.height;
}

function drawName(context, { colours }, text, { x, y }) {
  context.lineWidth = 3;
  context.strokeStyle = colours.halo;
  context.strokeText(text, x, y);
  context.fillStyle = colours.ink;
  context.fillText(text, x, y);
}
