// Next to the drawing: the table of the chosen node, its links, and the moment in words.

const STATE = { waiting: "waits", active: "in flight", arrived: "arrived" };
const MARK = { waiting: "○", active: "◐", arrived: "●" };
const OPS = ["REDUCE", "GATHER"];

function cell(tag, text, kind) {
  const made = document.createElement(tag);
  made.textContent = text;
  if (kind) made.className = kind;
  if (tag === "th") made.scope = "col";
  return made;
}

function fillHead(table, columns) {
  const row = document.createElement("tr");
  row.append(...columns.map(([text, kind]) => cell("th", text, kind)));
  table.tHead.replaceChildren(row);
}

// Rows of a rank in the order of its interface's table: of many waves by step in the period.
function tableOf(run, rank) {
  const rows = Array.from(run.bySrc.of(rank));
  const period = run.header.period;
  if (run.numWaves > 1) {
    const [step, stage] = [(row) => run.row.step[row] % period, (row) => Math.floor(run.row.step[row] / period)];
    rows.sort((a, b) => step(a) - step(b) || stage(b) - stage(a) || a - b);
  }
  return rows.map((row) => ({ row, awaited: awaitedBy(run, row) }));
}

// The table of a rank. It is built once; `update` then only changes what has changed.
function buildTable(run, table, rank) {
  const waves = run.numWaves > 1;
  fillHead(table, [
    ["Row", "number"], ["State"], ...(waves ? [["Wave", "number"]] : []), ["Step", "number"], ["Op"],
    ["Tree", "number"], ["To"], ["Waits for"], ["Port", "number"],
    ...(run.inCycles ? [["Sent", "number"], ["Arrived", "number"], ["Flits", "number"]] : []),
  ]);
  const entries = tableOf(run, rank).map((entry, index) => builtRow(run, entry, index, waves));
  table.tBodies[0].replaceChildren(...entries.map((entry) => entry.line));
  return entries;
}

function builtRow(run, { row, awaited }, index, waves) {
  const line = document.createElement("tr");
  const first = run.routes.links[run.routes.offsets[row]];
  const step = run.row.step[row];
  const stage = Math.floor(step / run.header.period);
  const stepText = waves ? `${step % run.header.period}${stage ? ` +${stage}` : ""}` : String(step);
  const op = run.row.op[row];
  const parts = {
    waits: cell("td", "", "waits"), wave: cell("td", "", "number"), state: cell("td", "", "state"),
    sent: cell("td", "", "number"), arrived: cell("td", "", "number"),
  };
  line.append(
    cell("td", String(index), "number"), parts.state, ...(waves ? [parts.wave] : []), cell("td", stepText, "number"),
    cell("td", OPS[op], `op-${op}`), cell("td", String(run.row.flow[row]), "number"),
    cell("td", labelOf(run, run.row.dst[row])), parts.waits, cell("td", String(run.link.port[first]), "number"),
    ...(run.inCycles ? [parts.sent, parts.arrived, cell("td", grouped(run.amounts[row]), "number")] : []),
  );
  return { row, awaited, line, parts, said: "" };
}

const MOST_NAMED = 3;

// What a row waits for in a wave: the ranks whose messages have to come first, marked once in; where
// they are many, their number and the first that is missing.
function waitsText(run, entry, wave, time) {
  if (!entry.awaited.length) return "nothing";
  const isIn = (other) => run.arrived[wave * run.numRows + other] <= time;
  const source = (other) => run.row.src[other];
  if (entry.awaited.length <= MOST_NAMED) {
    return entry.awaited.map((other) => `${source(other)}\u00a0${isIn(other) ? "✓" : "…"}`).join(", ");
  }
  const missing = entry.awaited.filter((other) => !isIn(other));
  const count = `${entry.awaited.length - missing.length} of ${entry.awaited.length}`;
  if (!missing.length) return `${count}\u00a0✓`;
  return `${count}, not ${source(missing[0])}${missing.length > 1 ? ", …" : ""}`;
}

function updateTable(run, entries, time, tree) {
  let firstOpen = null;
  for (const entry of entries) {
    const { wave, message, state } = progressOf(run, entry.row, time);
    const isOther = tree >= 0 && run.row.flow[entry.row] !== tree;
    const waits = waitsText(run, entry, wave, time);
    const said = `${state} ${wave} ${waits} ${isOther}`;
    if (state !== "arrived" && !isOther && firstOpen === null) firstOpen = entry.line;
    if (said === entry.said) continue;
    entry.said = said;
    entry.line.className = isOther ? "other" : state;
    entry.parts.waits.textContent = waits;
    entry.parts.wave.textContent = `${wave + 1}/${run.numWaves}`;
    entry.parts.state.textContent = `${MARK[state]} ${STATE[state]}`;
    if (run.inCycles) {
      entry.parts.sent.textContent = grouped(run.sent[message]);
      entry.parts.arrived.textContent = grouped(run.arrived[message]);
    }
  }
  return firstOpen;
}

// Links that leave a node, with what goes over each: of one tree, or of all where it is -1.
function buildPorts(run, table, node, tree) {
  fillHead(table, [
    ["Port", "number"], ["To"], ["GB/s", "number"], ["Now", "number"],
    ["So far", "number"], ["In all", "number"], [run.inCycles ? "Load in all" : "Of the most", "number"],
  ]);
  const all = loadsOf(run, { time: run.duration, tree }, "all");
  const entries = Array.from(run.linksFrom.of(node), (link) => {
    const line = document.createElement("tr");
    const parts = { now: cell("td", "", "number"), far: cell("td", "", "number") };
    line.append(
      cell("td", String(run.link.port[link]), "number"), cell("td", labelOf(run, run.link.dst[link])),
      cell("td", String(run.link.speed[link]), "number"), parts.now, parts.far,
      cell("td", grouped(all.amounts[link]), "number"),
      cell("td", `${Math.round(100 * all.share[link])} %`, "number"),
    );
    return { link, line, parts };
  });
  table.tBodies[0].replaceChildren(...entries.map((entry) => entry.line));
  return entries;
}

function updatePorts(entries, moment) {
  for (const { link, parts } of entries) {
    parts.now.textContent = grouped(moment.now[link]);
    parts.far.textContent = grouped(moment.far[link]);
  }
}

// The time, short.
function readoutOf(run, time) {
  if (!run.inCycles) {
    const last = run.duration - 1;
    if (time <= 0) return ["Start", `steps 0 to ${last}`];
    return time >= run.duration ? ["End", `after step ${last}`] : [`Step ${Math.floor(time)}`, `of 0 to ${last}`];
  }
  const microseconds = time / run.header.clock_ghz / 1000;
  return [`Cycle ${grouped(time)}`, `of ${grouped(run.duration)} · ${microseconds.toFixed(2)} µs`];
}

// The moment in sentences, for everybody; screen readers read it when it changes.
function summaryOf(run, moment, loads, chosen) {
  const flying = moment.active.length;
  const [adds, delivers] = moment.inFlight;
  const whose = moment.tree < 0 ? "" : ` of tree ${moment.tree}, whose root is rank ${run.flowRoot[moment.tree]},`;
  const parts = [`${readoutOf(run, moment.time)[0]}:`];
  if (!flying) {
    parts.push(`no message${whose} is on its way.`);
  } else {
    const busy = moment.now.reduce((sum, count) => sum + (count > 0), 0);
    parts.push(`${counted(flying, "message")}${whose} ${flying === 1 ? "is" : "are"} on ${grouped(busy)} of ${counted(moment.now.length, "link")}`);
    parts.push(`(${grouped(adds)} add, ${grouped(delivers)} deliver).`);
    const most = moment.now.reduce((a, b) => Math.max(a, b), 0);
    parts.push(most > 1 ? `Up to ${most} share a link${linkText(run, moment.now.indexOf(most))}.` : "No two share a link.");
  }
  if (moment.tree < 0) parts.push(`${grouped(moment.ranksDone)} of ${counted(run.header.num_ranks, "rank")} done.`);
  parts.push(nodeSummary(run, moment, chosen));
  return parts.join(" ");
}

function linkText(run, link) {
  return `, from ${labelOf(run, run.link.src[link])} to ${labelOf(run, run.link.dst[link])}`;
}

// What the chosen node sends and gets at the moment.
function nodeSummary(run, moment, node) {
  const [to, from] = [[], []];
  for (const message of moment.active) {
    const row = message % run.numRows;
    if (run.row.src[row] === node) to.push(run.row.dst[row]);
    if (run.row.dst[row] === node) from.push(run.row.src[row]);
  }
  if (node >= run.header.num_ranks) {
    const through = run.linksFrom.of(node).reduce((sum, link) => sum + moment.now[link], 0);
    return `Switch ${labelOf(run, node)} passes on ${counted(through, "message")}.`;
  }
  const list = (nodes) => (nodes.length ? [...new Set(nodes)].sort((a, b) => a - b).slice(0, 12).join(", ") : "none");
  return `Rank ${labelOf(run, node)} sends to ${list(to)} and gets from ${list(from)}.`;
}

// What is at the pointer, in a few lines.
function tipOf(run, moment, found) {
  if (found.node !== undefined) {
    const node = found.node;
    if (node >= run.header.num_ranks) return `Switch ${labelOf(run, node)}`;
    return `Rank ${labelOf(run, node)}\n${moment.arrivals[node]} of ${run.totals.arrivals[node]} messages are in`;
  }
  const { link } = found;
  const unit = run.inCycles ? "flits" : "messages";
  const lines = [
    `Link ${link}: ${labelOf(run, run.link.src[link])} → ${labelOf(run, run.link.dst[link])}`,
    `port ${run.link.port[link]}, ${run.link.speed[link]} GB/s`,
    `${grouped(moment.far[link])} of ${grouped(run.totals.links[link])} ${unit} so far`,
  ];
  for (const message of moment.active) {
    const row = message % run.numRows;
    if (lines.length < 7 && linksOf(run, row).includes(link)) {
      lines.push(`now: ${OPS[run.row.op[row]]}, tree ${run.row.flow[row]}, ${run.row.src[row]} → ${run.row.dst[row]}`);
    }
  }
  return lines.join("\n");
}
