// The state of the network at one moment: what is on its way, what is in, how loaded links are.

// Messages of a tree, or of all trees where it is -1; each is a row in a wave.
function rowsOf(run, tree) {
  return tree < 0 ? null : run.byFlow.of(tree);
}

// Everything that the page draws and says at a time, for all trees or one.
function momentAt(run, time, tree) {
  const numLinks = run.link.src.length;
  const moment = {
    time, tree,
    active: [],
    inFlight: [0, 0],
    now: new Int32Array(numLinks),
    far: new Float64Array(numLinks),
    arrivals: new Int32Array(run.numNodes),
    ranksDone: 0,
  };
  const rows = rowsOf(run, tree);
  const count = rows ? rows.length : run.numRows;
  for (let wave = 0; wave < run.numWaves; wave++) {
    const base = wave * run.numRows;
    for (let i = 0; i < count; i++) {
      const row = rows ? rows[i] : i;
      if (run.sent[base + row] <= time) takeIn(run, moment, base + row, row);
    }
  }
  for (let rank = 0; rank < run.header.num_ranks; rank++) moment.ranksDone += run.doneAt[rank] <= time;
  return moment;
}

// Add one message that has left to a moment.
function takeIn(run, moment, message, row) {
  const sent = run.sent[message];
  const arrived = run.arrived[message];
  const isIn = arrived <= moment.time;
  let amount = run.amounts[row];
  if (isIn) {
    moment.arrivals[run.row.dst[row]]++;
  } else {
    moment.active.push(message);
    moment.inFlight[run.row.op[row]]++;
  }
  for (let hop = run.routes.offsets[row]; hop < run.routes.offsets[row + 1]; hop++) {
    const link = run.routes.links[hop];
    if (isIn) {
      moment.far[link] += amount;
    } else {
      moment.now[link]++;
      moment.far[link] += amount * shareSent(run, sent, arrived, amount / run.link.rate[link], moment.time);
    }
  }
}

// The part of a message that has gone over a link: flits follow each other at the link's rate.
function shareSent(run, sent, arrived, takes, time) {
  if (!run.inCycles) return 1;
  const spent = Math.min(Math.max(takes, 1), arrived - sent);
  return Math.min((time - sent) / spent, 1);
}

// Load of each link between 0 and 1, and what its number says.
function loadsOf(run, moment, show) {
  const numLinks = run.link.src.length;
  const share = new Float64Array(numLinks);
  const text = new Array(numLinks);
  const whole = wholeRun(run, moment.tree);
  const amounts = show === "now" ? moment.now : show === "far" ? moment.far : whole;
  const cycles = show === "far" ? moment.time : run.duration;
  // In steps a load is compared with the highest of the whole run, so that it is seen to grow.
  const most = (show === "now" ? amounts : whole).reduce((a, b) => Math.max(a, b), 0);
  for (let link = 0; link < numLinks; link++) {
    if (show === "now" || !run.inCycles) {
      share[link] = most ? amounts[link] / most : 0;
      text[link] = grouped(amounts[link]);
    } else {
      share[link] = cycles ? Math.min(amounts[link] / (cycles * run.link.rate[link]), 1) : 0;
      text[link] = `${Math.round(100 * share[link])} %`;
    }
  }
  return { share, text, amounts };
}

// What goes over each link in all: of one tree, or of all.
function wholeRun(run, tree) {
  if (tree < 0) return run.totals.links;
  const links = new Float64Array(run.link.src.length);
  for (const row of run.byFlow.of(tree)) {
    for (let hop = run.routes.offsets[row]; hop < run.routes.offsets[row + 1]; hop++) {
      links[run.routes.links[hop]] += run.amounts[row] * run.numWaves;
    }
  }
  return links;
}

// Of 0, and 1 to 5, the class of a load; the lowest is not empty, the highest is full.
function classOf(share) {
  return share <= 0 ? 0 : Math.min(1 + Math.floor(share * 5), 5);
}

// How far a row is: the wave that is next or on its way, and whether that waits, goes or is in.
function progressOf(run, row, time) {
  let wave = 0;
  while (wave < run.numWaves - 1 && run.arrived[wave * run.numRows + row] <= time) wave++;
  const message = wave * run.numRows + row;
  const state = run.arrived[message] <= time ? "arrived" : run.sent[message] <= time ? "active" : "waiting";
  return { wave, message, state };
}

// Rows whose arrival a row waits for: those of its tree that reach its source in earlier steps.
function awaitedBy(run, row) {
  const found = [];
  for (const other of run.byDst.of(run.row.src[row])) {
    if (run.row.flow[other] === run.row.flow[row] && run.row.step[other] < run.row.step[row]) found.push(other);
  }
  return found.sort((a, b) => run.row.step[a] - run.row.step[b] || run.row.order[a] - run.row.order[b]);
}

// Times at which something leaves or comes in, ascending, each once.
function eventsOf(run) {
  const times = new Float64Array(2 * run.sent.length);
  times.set(run.sent);
  times.set(run.arrived, run.sent.length);
  times.sort();
  return times.filter((time, i) => i === 0 || time !== times[i - 1]);
}

// Messages in flight in each of so many equal parts of the run, by op.
function activityOf(run, numBins, tree) {
  const bins = [new Float64Array(numBins + 1), new Float64Array(numBins + 1)];
  const rows = rowsOf(run, tree);
  const count = rows ? rows.length : run.numRows;
  const per = numBins / run.duration;
  for (let wave = 0; wave < run.numWaves; wave++) {
    for (let i = 0; i < count; i++) {
      const row = rows ? rows[i] : i;
      const message = wave * run.numRows + row;
      const of = bins[run.row.op[row]];
      // A message counts in a part as much as it fills of it.
      spread(of, run.sent[message] * per, run.arrived[message] * per);
    }
  }
  return bins.map((bin) => integrated(bin, numBins));
}

// Note where a message begins and ends; `integrated` makes the numbers in flight of it.
function spread(bin, from, to) {
  bin[Math.min(Math.floor(from + 1e-9), bin.length - 1)]++;
  bin[Math.min(Math.ceil(to - 1e-9), bin.length - 1)]--;
}

function integrated(bin, numBins) {
  let sum = 0;
  return Float64Array.from({ length: numBins }, (_, i) => (sum += bin[i]));
}
