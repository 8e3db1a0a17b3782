// Groups: tasks that share a log's partitions, and the splits and merges of those over time.
import { el, svg, link, table, fact, badge, nothing, absent, ask, topic, number, span, when, moment, clock, to } from "./core.js";

export const title = "Groups";
export const icon = "M5 5v6h7v8M5 11h14v8M5 11v8";

const ROWS_MAX = 200, ROW = 26;
const KINDS = { waiting: "soft", running: "info", finished: "good", removed: "soft" };

// A watermark is a timestamp or a position in a log.
const mark = (value) => (value == null || value === "" ? "none yet" : typeof value === "number" && value > 1e12 ? moment(value) : typeof value === "number" ? number(value) : String(value));

// Several nodes may watch the same group: prefer one that can read it.
function unique(groups) {
  const byName = new Map();
  for (const group of groups) if (!byName.has(group.name) || byName.get(group.name).why_away) byName.set(group.name, group);
  return [...byName.values()].sort((a, b) => a.name.localeCompare(b.name));
}

function showAll(entry) {
  const groups = entry.value?.groups && unique(entry.value.groups);
  const head = el("h2", {}, "Groups");
  if (!groups) return [head, absent(entry, "groups", nothing("No groups on this node", "Nodes with the role group report groups. Open the dashboard of one of them."))];
  return [head, table("Groups", [{ text: "Group" }, { text: "Log" }, { text: "Epoch", n: true }, { text: "Tasks", n: true }, { text: "Partitions", n: true }, { text: "Watermark" }, { text: "Problem", isHidden: true }],
    groups.map((group) => ({ key: group.name, cells: [link(group.name, "groups", group.name), el("span", { class: "mono" }, group.log), number(group.epoch), number(group.n_tasks),
      number(group.n_partitions), mark(group.watermark), group.why_away ? el("span", { class: "bad" }, group.why_away) : null] })),
    nothing("No groups", "A group shares the partitions of a stream among its tasks.", "rota group --help"))];
}

// --- the tree over time ---

// Parents before their children, children below them.
function order(partitions) {
  const byName = new Map(partitions.map((each) => [each.name, each]));
  const children = new Map();
  const roots = [];
  for (const each of partitions) {
    const parent = (each.parents ?? []).find((name) => byName.has(name));
    if (parent === undefined || parent === each.name) roots.push(each);
    else children.set(parent, [...(children.get(parent) ?? []), each]);
  }
  const begun = (a, b) => (a.started_ms || Infinity) - (b.started_ms || Infinity) || String(a.name).localeCompare(b.name);
  const sorted = [], seen = new Set();
  const stack = roots.sort(begun).reverse().map((each) => [each, 0]);
  while (stack.length) {
    const [each, depth] = stack.pop();
    if (seen.has(each.name)) continue;
    seen.add(each.name);
    sorted.push({ ...each, depth });
    for (const child of (children.get(each.name) ?? []).sort(begun).reverse()) stack.push([child, depth + 1]);
  }
  for (const each of partitions) if (!seen.has(each.name)) sorted.push({ ...each, depth: 0 }); // a cycle of parents
  return sorted;
}

function drawTree(group, selected) {
  const now = Date.now();
  const newest = [...group.partitions].sort((a, b) => (b.started_ms || now) - (a.started_ms || now)).slice(0, ROWS_MAX);
  const rows = order(newest);
  const starts = rows.map((each) => each.started_ms).filter(Boolean);
  const from = starts.length ? Math.min(...starts) : now - 60000;
  const range = Math.max(1000, now - from) * 1.02;
  const x = (ms) => ((ms - from) / range) * 100;
  const at = new Map(rows.map((each, i) => [each.name, i]));
  const end = (each) => (each.ended_ms ? each.ended_ms : each.started_ms ? now : null);
  const lines = rows.flatMap((each, i) => (each.parents ?? []).filter((name) => at.has(name)).map((name) => {
    const parent = rows[at.get(name)], y0 = at.get(name) * ROW + ROW / 2, y1 = i * ROW + ROW / 2;
    const x0 = x(end(parent) ?? now), x1 = x(each.started_ms || now);
    return svg("path", { class: "branch", d: `M${x0.toFixed(2)},${y0} L${x0.toFixed(2)},${y1} L${x1.toFixed(2)},${y1}` });
  }));
  const bars = rows.map((each, i) => (each.started_ms ? svg("rect", { class: `solid is-${each.state}${each.name === selected ? " is-picked" : ""}`, x: x(each.started_ms), y: i * ROW + 6,
    width: Math.max(0.4, x(end(each)) - x(each.started_ms)), height: ROW - 12 }, svg("title", {}, `${each.name}: ${each.state}, ${span(end(each) - each.started_ms)}`)) : null));
  const isTime = typeof group.watermark === "number" && group.watermark > from && group.watermark <= now;
  const height = rows.length * ROW;
  return el("div", { class: "tree", "data-key": "tree" },
    el("ol", { class: "names" }, rows.map((each) => el("li", { "data-key": each.name },
      el("a", { href: to("groups", group.name, each.name), "aria-current": each.name === selected && "true", class: `in-${Math.min(8, each.depth)}` },
        el("i", { class: `dot is-${each.state}` }), el("span", { class: "mono" }, each.name), el("span", { class: "hidden" }, `, ${each.state}`), el("span", { class: "quiet" }, each.owner ? ` ${each.owner}` : ""))))),
    el("div", { class: "bars" }, svg("svg", { viewBox: `0 0 100 ${height}`, preserveAspectRatio: "none", style: { height: `${height}px` }, role: "img",
      "aria-label": `${rows.length} partitions from ${moment(from)} until now` },
    rows.map((_, i) => svg("line", { class: "grid", x1: 0, x2: 100, y1: (i + 1) * ROW, y2: (i + 1) * ROW })), lines, bars,
    isTime ? svg("line", { class: "watermark", x1: x(group.watermark), x2: x(group.watermark), y1: 0, y2: height }) : null),
    el("div", { class: "axis" }, el("span", {}, now - from > 86400000 ? moment(from) : clock(from)), el("span", {}, "now"))));
}

function showPartition(group, name) {
  const each = group.partitions.find((one) => one.name === name);
  if (!each) return el("section", { class: "card", "data-key": "one" }, el("p", {}, `Group ${group.name} no longer has a partition ${name}.`));
  const children = group.partitions.filter((one) => one.parents?.includes(name)).map((one) => one.name);
  const links = (names) => (names.length ? names.map((one) => [link(one, "groups", group.name, one), " "]) : "none");
  return el("section", { class: "card", "data-key": "one", "aria-live": "polite" },
    el("div", { class: "head" }, el("h3", {}, el("span", { class: "mono" }, name), " ", badge(each.state, KINDS[each.state] ?? "soft")), link("Close", "groups", group.name)),
    el("dl", { class: "pairs" }, el("dt", {}, "Owner"), el("dd", {}, each.owner || "none"), el("dt", {}, "Parents"), el("dd", {}, links(each.parents ?? [])),
      el("dt", {}, "Children"), el("dd", {}, links(children)), el("dt", {}, "Position"), el("dd", {}, mark(each.position)), el("dt", {}, "Watermark"), el("dd", {}, mark(each.mark)),
      each.token != null ? [el("dt", {}, "Fencing token"), el("dd", { class: "mono" }, String(each.token))] : null,
      each.started_ms ? [el("dt", {}, "Started"), el("dd", {}, when(each.started_ms), `, ${each.ended_ms ? "ran" : "running"} for ${span((each.ended_ms || Date.now()) - each.started_ms)}`)] : null));
}

function showGroup(name, selected) {
  const entry = ask(`/api/v1/groups/${encodeURIComponent(name)}`, 1000);
  const crumbs = el("nav", { class: "crumbs", "aria-label": "Where" }, link("Groups", "groups"), " / ");
  const group = entry.value;
  if (!group) return [crumbs, el("h2", {}, name), absent(entry, "the group", nothing(`No group ${name}`, "Check the name, and whether this node is configured to watch the group."))];
  const partitions = group.partitions ?? [], tasks = group.tasks ?? [];
  const nOf = (each) => partitions.filter((one) => one.state === each).length;
  const nRunning = (task) => partitions.filter((one) => one.owner === task.name && one.state === "running").length;
  const most = Math.max(1, ...tasks.map(nRunning));
  return [
    crumbs, el("h2", {}, name),
    el("div", { class: "facts" }, fact(number(group.epoch), "epoch"), fact(mark(group.watermark), "watermark"), fact(number(tasks.length), tasks.length === 1 ? "task" : "tasks"),
      fact(number(nOf("running")), "running"), fact(number(nOf("waiting")), "waiting"), fact(number(nOf("finished")), "finished")),
    el("h3", {}, "Tasks"),
    tasks.length ? el("ul", { class: "tasks", "data-key": "tasks" }, tasks.map((task) => el("li", { "data-key": task.name }, el("span", { class: "mono" }, task.name), task.is_leader ? [" ", badge("leader", "info")] : null,
      el("span", { class: "meter" }, svg("svg", { viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" }, svg("rect", { x: 0, y: 0, width: (nRunning(task) / most) * 100, height: 10 }))),
      el("span", { class: "quiet" }, `${number(nRunning(task))} running, ${number(task.n_partitions)} not finished`)))) : nothing("No tasks", "Partitions wait until a task joins."),
    el("h3", {}, "Partitions over time"),
    group.n_left_out ? el("p", { class: "quiet" }, `${number(group.n_left_out)} older partitions that have finished are not shown.`) : null,
    partitions.length > ROWS_MAX ? el("p", { class: "quiet" }, `Newest ${ROWS_MAX} of ${number(partitions.length)}.`) : null,
    partitions.length ? el("div", { class: selected === undefined ? "split is-whole" : "split", "data-key": "partitions" }, drawTree(group, selected), selected !== undefined ? showPartition(group, selected) : null) : nothing("No partitions", "Partitions appear when the first task has read the log."),
  ];
}

export function show([name, partition]) {
  return name ? showGroup(name, partition) : showAll(topic("groups"));
}
