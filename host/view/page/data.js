// What is played: columns of integers, unpacked into typed arrays.

const UNITS = 1000; // parts of a unit of the drawing, as recording.py rounds them
const REDUCE = 0;

// The bytes behind base64, inflated.
async function inflated(text) {
  if (typeof DecompressionStream === "undefined") {
    throw new Error("This browser is too old; Chrome 99, Firefox 113, Safari 16.4 and later ones can play it.");
  }
  const bytes = Uint8Array.from(atob(text.trim()), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// Header and columns as columns.py packs them.
function unpacked(bytes) {
  const length = new DataView(bytes.buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + length)));
  const columns = {};
  let at = 4 + length;
  for (const [name, count, planes] of header.columns) {
    const column = new Float64Array(count);
    for (let plane = 0, weight = 1; plane < planes; plane++, weight *= 256, at += count) {
      for (let i = 0; i < count; i++) column[i] += weight * bytes[at + i];
    }
    let last = 0;
    for (let i = 0; i < count; i++) {
      const folded = column[i];
      last += folded % 2 ? -(folded + 1) / 2 : folded / 2;
      column[i] = last;
    }
    columns[name] = column;
  }
  return { header, columns };
}

// Offsets of ragged entries, from their numbers.
function offsetsOf(counts) {
  const offsets = new Int32Array(counts.length + 1);
  for (let i = 0; i < counts.length; i++) offsets[i + 1] = offsets[i] + counts[i];
  return offsets;
}

// Indices of entries in groups of equal keys: those of key k are index[offsets[k]...offsets[k + 1]].
function groupedBy(keys, numKeys) {
  const counts = new Int32Array(numKeys);
  for (const key of keys) counts[key]++;
  const offsets = offsetsOf(counts);
  const next = offsets.slice();
  const index = new Int32Array(keys.length);
  for (let i = 0; i < keys.length; i++) index[next[keys[i]]++] = i;
  return { of: (key) => index.subarray(offsets[key], offsets[key + 1]) };
}

// When each message of each wave leaves and is in: cycles of a trace, or one step each.
function timesOf(header, columns) {
  const rows = columns.row_step.length;
  const waves = header.num_waves;
  const sent = new Float64Array(rows * waves);
  const arrived = new Float64Array(rows * waves);
  for (let wave = 0, m = 0; wave < waves; wave++) {
    for (let row = 0; row < rows; row++, m++) {
      if (columns.sent) {
        sent[m] = columns.sent[m] + (wave ? sent[m - rows] : 0);
        // For a moment it is what the message takes, which goes on from wave to wave.
        arrived[m] = columns.taken[m] + (wave ? arrived[m - rows] : 0);
      } else {
        sent[m] = columns.row_step[row] + wave * header.period;
        arrived[m] = 1;
      }
    }
  }
  for (let m = 0; m < sent.length; m++) arrived[m] += sent[m];
  return { sent, arrived };
}

// All that the page knows: header, columns under short names, and indices into them.
function runOf({ header, columns }) {
  const whole = (name) => Int32Array.from(columns[name]);
  const scaled = (name) => Float64Array.from(columns[name], (value) => value / UNITS);
  const row = {};
  for (const name of ["step", "op", "flow", "src", "dst", "order"]) row[name] = whole(`row_${name}`);
  const link = { src: whole("link_src"), dst: whole("link_dst"), port: whole("link_port") };
  link.lane = Float64Array.from(columns.link_lane, (value) => value / 2);
  link.rate = Float64Array.from(columns.link_rate, (value) => value / 1e6);
  link.speed = Float64Array.from(columns.link_mbytes_per_s, (value) => value / 1000);
  link.corners = offsetsOf(columns.link_corners);
  link.isStub = whole("link_is_stub");
  const numNodes = header.num_ranks + header.num_switches;
  const inCycles = header.engine !== null;
  const run = {
    header, row, link, numNodes, inCycles,
    node: { x: scaled("node_x"), y: scaled("node_y"), radius: columns.node_radius[0] / UNITS },
    curve: { x: scaled("curve_x"), y: scaled("curve_y") },
    routes: { offsets: offsetsOf(columns.row_hops), links: whole("route_links") },
    flowRoot: whole("flow_root"),
    flowFlits: columns.flow_flits || null,
    done: columns.done || null,
    duration: header.duration,
    numRows: row.step.length, numWaves: header.num_waves,
    byFlow: groupedBy(row.flow, header.num_flows),
    bySrc: groupedBy(row.src, numNodes),
    byDst: groupedBy(row.dst, numNodes),
    linksFrom: groupedBy(link.src, numNodes),
    ...timesOf(header, columns),
  };
  run.doneAt = doneAt(run);
  run.amounts = amountsOf(run);
  run.totals = totalsOf(run);
  return run;
}

// When each rank has sent and taken everything.
function doneAt(run) {
  if (run.done) return run.done;
  const last = new Float64Array(run.numNodes);
  for (let m = 0; m < run.sent.length; m++) {
    const row = m % run.numRows;
    for (const node of [run.row.src[row], run.row.dst[row]]) last[node] = Math.max(last[node], run.arrived[m]);
  }
  return last;
}

// What a message of each row loads links with: flits, or 1 where there is no size.
function amountsOf(run) {
  return run.flowFlits
    ? Float64Array.from(run.row.flow, (flow) => run.flowFlits[flow])
    : new Float64Array(run.numRows).fill(1);
}

// Per link what goes over it in all, and per node the messages that come in.
function totalsOf(run) {
  const links = new Float64Array(run.link.src.length);
  const arrivals = new Int32Array(run.numNodes);
  for (let row = 0; row < run.numRows; row++) {
    arrivals[run.row.dst[row]] += run.numWaves;
    for (let hop = run.routes.offsets[row]; hop < run.routes.offsets[row + 1]; hop++) {
      links[run.routes.links[hop]] += run.amounts[row] * run.numWaves;
    }
  }
  return { links, arrivals };
}

// A node for people: its number, with its name behind it where it has one.
function labelOf(run, node) {
  return run.header.names ? `${node} (${run.header.names[node]})` : String(node);
}

// Digits in groups of three.
function grouped(number) {
  return Math.round(number).toString().replace(/\B(?=(\d{3})+$)/g, "\u202f");
}

// A number of things, in words.
function counted(number, thing) {
  return `${grouped(number)} ${thing}${number === 1 ? "" : "s"}`;
}
