// The line along which each link is drawn, in units of the drawing.

const LANE = 0.17;
const MOST_ASIDE = 0.74;
const FOOT = 0.62; // part of a node's radius within which links begin and end

// All links as chains of points: link k has points offsets[k] to offsets[k + 1].
function pathsOf(run) {
  const numLinks = run.link.src.length;
  let widest = 1;
  for (const lane of run.link.lane) widest = Math.max(widest, Math.abs(lane));
  const lane = Math.min(LANE, MOST_ASIDE / widest);
  const chains = [];
  for (let link = 0; link < numLinks; link++) chains.push(chainOf(run, link, lane));
  const offsets = offsetsOf(chains.map((chain) => chain.points.length));
  const total = offsets[numLinks];
  const paths = {
    lane, offsets,
    x: new Float64Array(total), y: new Float64Array(total), along: new Float64Array(total),
    breaks: Int32Array.from(chains, (chain) => chain.breakAt),
  };
  chains.forEach((chain, link) => fillIn(paths, offsets[link], chain));
  return paths;
}

// Put a chain's points where they belong, with the length up to each; a break has no length.
function fillIn(paths, start, { points, breakAt }) {
  points.forEach(([x, y], i) => {
    paths.x[start + i] = x;
    paths.y[start + i] = y;
    const step = i && i !== breakAt ? Math.hypot(x - points[i - 1][0], y - points[i - 1][1]) : 0;
    paths.along[start + i] = i ? paths.along[start + i - 1] + step : 0;
  });
}

// Points of one link, moved into its lane; `breakAt` is the first point of the second stub, or -1.
function chainOf(run, link, lane) {
  const { node, curve } = run;
  const corners = [];
  for (let i = run.link.corners[link]; i < run.link.corners[link + 1]; i++) corners.push([curve.x[i], curve.y[i]]);
  const from = [node.x[run.link.src[link]], node.y[run.link.src[link]]];
  const to = [node.x[run.link.dst[link]], node.y[run.link.dst[link]]];
  const aside = run.link.lane[link] * lane;
  if (run.link.isStub[link]) {
    const out = inLane(trimmed([from, corners[0]], node.radius, 0), aside, node.radius);
    const back = inLane(trimmed([corners[1], to], 0, node.radius), aside, node.radius);
    return { points: [...out, ...back], breakAt: out.length };
  }
  const line = rounded([from, ...corners, to]);
  return { points: inLane(trimmed(line, node.radius, node.radius), aside, node.radius), breakAt: -1 };
}

// A polygon whose corners are rounded: parabolas between the middles of its sides.
function rounded(points) {
  if (points.length < 3) return points;
  const middle = (a, b) => [(a[0] + b[0]) / 2, (a[1] + b[1]) / 2];
  const line = [points[0]];
  for (let i = 1; i < points.length - 1; i++) {
    const start = i === 1 ? points[0] : middle(points[i - 1], points[i]);
    const end = i === points.length - 2 ? points[i + 1] : middle(points[i], points[i + 1]);
    for (let k = 1; k <= 8; k++) {
      const t = k / 8;
      const [a, b, c] = [(1 - t) * (1 - t), 2 * t * (1 - t), t * t];
      line.push([
        a * start[0] + b * points[i][0] + c * end[0],
        a * start[1] + b * points[i][1] + c * end[1],
      ]);
    }
  }
  return line;
}

// A line without its first and last part, which lie inside of nodes.
function trimmed(line, first, last) {
  return shortened(shortened(line, first).reverse(), last).reverse();
}

function shortened(line, by) {
  let left = by;
  for (let i = 1; i < line.length; i++) {
    const [[ax, ay], [bx, by_]] = [line[i - 1], line[i]];
    const length = Math.hypot(bx - ax, by_ - ay);
    if (length > left) {
      const t = left / length;
      return [[ax + t * (bx - ax), ay + t * (by_ - ay)], ...line.slice(i)];
    }
    left -= length;
  }
  return line.slice(-2);
}

// A line moved to its right; a lane that is far aside leaves its node within the node's width.
function inLane(line, aside, radius) {
  const most = radius * FOOT;
  const isFar = Math.abs(aside) > most;
  const points = isFar && line.length === 2 ? [0, 0.2, 0.8, 1].map((t) => between(line[0], line[1], t)) : line;
  return points.map((point, i) => {
    const [ax, ay] = points[Math.max(i - 1, 0)];
    const [bx, by] = points[Math.min(i + 1, points.length - 1)];
    const length = Math.hypot(bx - ax, by - ay) || 1;
    const isEnd = i === 0 || i === points.length - 1;
    const offset = isFar && isEnd ? Math.sign(aside) * most * Math.min(Math.abs(aside) / MOST_ASIDE + 0.25, 1) : aside;
    return [point[0] - ((by - ay) / length) * offset, point[1] + ((bx - ax) / length) * offset];
  });
}

function between(a, b, t) {
  return [a[0] + t * (b[0] - a[0]), a[1] + t * (b[1] - a[1])];
}

// Length of a link's line.
function lengthOf(paths, link) {
  return paths.along[paths.offsets[link + 1] - 1];
}

// Place and direction at a part of a link's line, from 0 to 1.
function pointAt(paths, link, part) {
  const [first, last] = [paths.offsets[link], paths.offsets[link + 1] - 1];
  const goal = part * paths.along[last];
  let i = first + 1;
  while (i < last && paths.along[i] < goal) i++;
  // At a break there is no line to be on: the second stub begins.
  if (i - first === paths.breaks[link]) i++;
  const step = paths.along[i] - paths.along[i - 1];
  const t = step ? Math.min(Math.max((goal - paths.along[i - 1]) / step, 0), 1) : 0;
  const [dx, dy] = [paths.x[i] - paths.x[i - 1], paths.y[i] - paths.y[i - 1]];
  return { x: paths.x[i - 1] + t * dx, y: paths.y[i - 1] + t * dy, angle: Math.atan2(dy, dx) };
}

// Place and direction of a message on its route, at a part of the time that it takes.
function messageAt(run, paths, row, part) {
  const [first, last] = [run.routes.offsets[row], run.routes.offsets[row + 1]];
  let total = 0;
  for (let hop = first; hop < last; hop++) total += lengthOf(paths, run.routes.links[hop]);
  let goal = part * total;
  for (let hop = first; hop < last; hop++) {
    const link = run.routes.links[hop];
    const length = lengthOf(paths, link);
    if (goal <= length || hop === last - 1) return pointAt(paths, link, length ? Math.min(goal / length, 1) : 0);
    goal -= length;
  }
  return null;
}
