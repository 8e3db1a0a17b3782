// Cluster: the ring with its nodes, zones and shards, shard ownership, and operator actions on nodes.
import { state, el, live, link, table, card, fact, badge, button, nothing, loading, absent, ask, topic, look, change, confirm,
  listenTo, onTopic, schedule, nameOf, byName, number, plural, span, bytes, when, to } from "./core.js";
import { makeRing, chip } from "./ring.js";
import { spark } from "./charts.js";
import { showLedger } from "./ledger.js";

export const title = "Cluster";
export const icon = "M12 3a9 9 0 1 0 .1 0M12 1v5M4 16l4-2M20 16l-4-2";

const MOVES_KEPT = 400;
const view = { lit: null, shard: -1, isKept: false, filter: "" };

// --- nodes ---

const usage = new Map(); // address -> { at, cpu, shares: [percent of a core, ...] }
const gone = new Map(); // address -> the node as it was when it was last listed, with `gone_ms`
const GONE_MAX = 600000;

function measure(nodes) {
  const now = Date.now();
  for (const node of nodes) {
    const before = usage.get(node.address);
    if (node.cpu_ms == null) continue;
    if (!before || node.cpu_ms < before.cpu) usage.set(node.address, { at: now, cpu: node.cpu_ms, shares: before?.shares ?? [] });
    else if (now - before.at >= 950) {
      before.shares.push(((node.cpu_ms - before.cpu) / (now - before.at)) * 100);
      if (before.shares.length > 300) before.shares.shift();
      before.at = now;
      before.cpu = node.cpu_ms;
    }
  }
}

// All listed nodes, and for a while those no longer listed, so that a lost node stays visible.
let listed = [], listedFor = null;
function allNodes() {
  const cluster = state.cluster;
  if (cluster === listedFor) return [...listed, ...gone.values()];
  const self = cluster.node;
  const nodes = (cluster.nodes ?? []).map((node) => (node.address === self?.address ? { ...self, ...node, state: node.state ?? self.state } : node));
  for (const node of listed)
    if (!nodes.some((each) => each.address === node.address)) gone.set(node.address, { ...node, gone_ms: Date.now(), is_alive: false, is_placed: false });
  for (const [address, node] of gone)
    if (nodes.some((each) => each.address === address) || Date.now() - node.gone_ms > GONE_MAX) gone.delete(address);
  measure(nodes);
  listed = nodes;
  listedFor = cluster;
  return [...nodes, ...gone.values()];
}

export function nameOfState(node) {
  if (node.gone_ms) return ["dead", "bad"];
  if (node.is_alive === false && !["dead", "evicted", "drained"].includes(node.state)) return ["dead", "bad"];
  const name = node.state ?? (node.is_draining ? "draining" : node.is_placed ? "on the ring" : "off the ring");
  const kind = { serving: "good", "on the ring": "good", draining: "warn", drained: "warn", stopping: "warn", leaving: "warn",
    joining: "warn", unresponsive: "warn", starting: "warn", dead: "bad", evicted: "bad", "off the ring": "bad" }[name] ?? "soft";
  return [name, kind];
}
const STATE_TITLES = { unresponsive: "does not respond, but its last heartbeat is within its ttl", dead: "no heartbeat within its ttl", evicted: "excluded by an operator" };
export const isDead = (node) => nameOfState(node)[1] === "bad";

const WORDS = {
  drain: { verb: "Drain", text: "The node hands over its work and gets nothing new until you undrain it.", isGrave: false },
  undrain: { verb: "Undrain", text: "The node gets its share of the work again.", isGrave: false },
  evict: { verb: "Evict", text: "Other nodes take over its work immediately. Evict only a node that is dead or unreachable.", isGrave: true },
};

async function operate(node, what) {
  const path = `/api/v1/nodes/${encodeURIComponent(node.address)}/${what}`;
  const dry = await change(path, { is_dry_run: true });
  if (!dry) return;
  const words = WORDS[what];
  if (!(await confirm(`${words.verb} ${node.name}?`, [words.text, ...(dry.plan ?? [])], words.verb, words.isGrave))) return;
  await change(path, { is_dry_run: false });
}

function actions(node) {
  const [name, kind] = nameOfState(node);
  const drained = node.is_draining || name === "drained" || name === "draining";
  return el("span", { class: "actions" },
    kind !== "bad" && !drained ? button("Drain", () => operate(node, "drain"), { class: "small", "aria-label": `Drain ${node.name}` }) : null,
    drained || name === "evicted" ? button("Undrain", () => operate(node, "undrain"), { class: "small", "aria-label": `Undrain ${node.name}` }) : null,
    name !== "evicted" && !node.gone_ms ? button("Evict", () => operate(node, "evict"), { class: "small", "aria-label": `Evict ${node.name}` }) : null);
}

function listNodes(nodes, counts) {
  const wanted = view.filter.toLowerCase();
  const some = nodes.filter((node) => `${node.name} ${node.address} ${node.zone} ${nameOfState(node)[0]} ${node.roles ?? ""}`.toLowerCase().includes(wanted));
  const heads = [{ text: "Node" }, { text: "Zone" }, { text: "Weight", n: true }, { text: "State" }, { text: "Shards", n: true },
    { text: "Jobs", n: true }, { text: "Calls", n: true }, { text: "CPU" }, { text: "Memory", n: true }, { text: "Uptime", n: true }, { text: "Actions", isHidden: true }];
  const light = (address) => () => { view.lit = address; schedule(); };
  return table("Nodes", heads, some.sort(byName).map((node) => {
    const [name, kind] = nameOfState(node);
    const cpu = usage.get(node.address)?.shares ?? [];
    const last = cpu[cpu.length - 1];
    const shards = counts?.get(node.address) ?? (counts ? 0 : node.shards);
    return { key: node.address, class: kind === "bad" ? "is-dead" : null, onpointerenter: light(node.address), onpointerleave: light(null), cells: [
      el("span", { class: "name" }, chip(node.address, kind === "bad"), " ", node.http && kind !== "bad" && node.http !== location.host
        ? el("a", { href: `${location.protocol}//${node.http}/`, title: `Dashboard of ${node.name}` }, node.name)
        : el("span", {}, node.name), node.address === state.cluster.node?.address ? el("span", { class: "quiet" }, " this node") : null,
      node.name === node.address ? null : el("span", { class: "quiet mono under" }, node.address)),
      node.zone, number(node.weight), [badge(name, kind, STATE_TITLES[name]), kind === "bad" && (node.gone_ms ?? node.heard_ms)
        ? el("span", { class: "quiet" }, ` last heartbeat ${span(Date.now() - (node.heard_ms ?? node.gone_ms))} ago`) : null],
      number(shards), number(node.jobs), number(node.calls),
      kind !== "bad" && cpu.length ? [spark(cpu, "one", `${Math.round(last)} % of a core`, 60), el("span", { class: "tiny" }, `${last < 10 ? last.toFixed(1) : Math.round(last)} %`)] : null,
      kind === "bad" ? "" : bytes(node.memory ?? node.memory_max), kind === "bad" || !node.started_ms ? "" : span(Date.now() - node.started_ms),
      actions(node)] };
  }), nothing("No matching nodes", "Try another search."));
}

// --- the shards of a space ---

let space = null; // the space on display: { name, version, nodes, n, owner, epoch, state, movedAt, moves, ... }
let isFetching = false, triedAt = 0, whyNot = null;

function takeAll(news) {
  const n = news.shards.length;
  const before = space?.name === news.name && space.n === n ? space : null;
  const made = { name: news.name, engine: news.engine, version: news.version, nodes: news.nodes, n, owner: new Int32Array(n),
    epoch: new Float64Array(n), state: new Uint8Array(n), movedAt: before?.movedAt ?? new Float64Array(n).fill(-1e9),
    moves: before?.moves ?? [], nMoves: before?.nMoves ?? 0, recent: before?.recent ?? [], changes: (before?.changes ?? 0) + 1 };
  const changed = [];
  news.shards.forEach(([owner, epoch, each], shard) => {
    if (before && (before.nodes[before.owner[shard]] !== news.nodes[owner] || before.epoch[shard] !== epoch || before.state[shard] !== each))
      changed.push([shard, owner, epoch, each]);
    made.owner[shard] = owner >= 0 && owner < news.nodes.length ? owner : -1;
    made.epoch[shard] = epoch;
    made.state[shard] = each <= 2 ? each : 2;
  });
  if (before) noteMoves(made, changed, (shard) => before.nodes[before.owner[shard]]);
  space = made;
}

// Moves to animate on the ring, summed by former and new owner.
function noteMoves(on, changed, formerOf) {
  const sums = new Map();
  const now = performance.now();
  for (const [shard, owner] of changed) {
    const from = formerOf(shard), to = on.nodes[owner];
    if (from === to) continue;
    on.movedAt[shard] = now;
    on.recent.push(shard);
    if (from && to) sums.set(`${from}\n${to}`, (sums.get(`${from}\n${to}`) ?? 0) + 1);
  }
  for (const [pair, n] of sums) {
    const [from, to] = pair.split("\n");
    on.moves.push({ number: ++on.nMoves, from, to, n, at_ms: Date.now() });
  }
  if (on.moves.length > MOVES_KEPT) on.moves.splice(0, on.moves.length - MOVES_KEPT);
}

function takeSome(news) {
  if (news.name !== space?.name) return;
  const nodes = news.nodes ?? space.nodes;
  if (nodes.length < space.nodes.length || nodes.some((name, i) => i < space.nodes.length && space.nodes[i] !== name)) {
    // Indexes mean other nodes now: owners that this update leaves out must be mapped, too.
    const at = new Map(nodes.map((name, i) => [name, i]));
    space.owner = space.owner.map((owner) => (owner < 0 ? -1 : at.get(space.nodes[owner]) ?? -1));
  }
  const former = news.changed.map(([shard]) => nodes[space.owner[shard]]);
  space.nodes = nodes;
  const changed = news.changed.filter(([shard]) => shard >= 0 && shard < space.n);
  for (const [shard, owner, epoch, each] of changed) {
    space.owner[shard] = owner >= 0 && owner < nodes.length ? owner : -1;
    space.epoch[shard] = epoch;
    space.state[shard] = each <= 2 ? each : 2;
  }
  const by = new Map(news.changed.map(([shard], i) => [shard, former[i]]));
  noteMoves(space, changed, (shard) => by.get(shard));
  space.version = news.version ?? space.version;
  space.changes++;
}
onTopic("space", takeSome);

// Fetch the whole space when the page opens it, and again when the list of spaces has another
// version, so that the page also follows a node that sends no changes.
async function follow(name) {
  listenTo(name);
  const known = (state.spaces?.spaces ?? []).find((each) => each.name === name);
  const isStale = space?.name !== name || (known && known.version !== space.version);
  if (!isStale || isFetching || Date.now() - triedAt < (space?.name === name ? 1500 : 3000) && whyNot?.name === name) return;
  isFetching = true;
  triedAt = Date.now();
  try {
    takeAll(await look(`/api/v1/spaces/${encodeURIComponent(name)}`));
    whyNot = { name, text: null };
  } catch (error) {
    whyNot = { name, text: error.message, status: error.status };
  }
  isFetching = false;
  schedule();
}

const STATES = ["owned", "moving", "unowned"];

function count() {
  const sums = new Uint32Array(space.nodes.length);
  let nMoving = 0, nLost = 0;
  for (let shard = 0; shard < space.n; shard++) {
    if (space.owner[shard] < 0) nLost++;
    else sums[space.owner[shard]]++;
    if (space.state[shard] === 1) nMoving++;
  }
  return { counts: new Map(space.nodes.map((name, i) => [name, sums[i]])), nMoving, nLost };
}

let counted = { for: "" };
function counts() {
  const key = `${space.name}/${space.changes}`;
  if (counted.for !== key) counted = { for: key, ...count() };
  return counted;
}

async function pin(name, shard, node) {
  const path = `/api/v1/spaces/${encodeURIComponent(name)}/shards/${shard}/pin`;
  const dry = await change(path, { node, is_dry_run: true });
  if (!dry) return;
  const title = node ? `Pin shard ${shard} to ${nameOf(node)}?` : `Unpin shard ${shard}?`;
  if (await confirm(title, dry.plan ?? ["The shard moves to this node if another node has it."], node ? "Pin" : "Unpin")) await change(path, { node, is_dry_run: false });
}

function showShard(name, shard) {
  if (!(shard >= 0 && shard < space.n))
    return card(`Shard ${shard}`, {}, el("p", {}, `${name} has shards 0 to ${number(space.n - 1)}.`));
  const path = `/api/v1/spaces/${encodeURIComponent(name)}/shards/${shard}`;
  const { value, error } = ask(path, 3000);
  const owner = space.nodes[space.owner[shard]];
  const since = value?.history?.length ? value.history[0].at_ms : null; // newest first
  return el("section", { class: "card", "data-key": "shard", "aria-live": "polite" },
    el("div", { class: "head" }, el("h3", {}, `Shard ${number(shard)}`), link("Close", "cluster", name)),
    el("dl", { class: "pairs" },
      el("dt", {}, "Owner"), el("dd", {}, owner ? [chip(owner), " ", el("span", { title: owner }, nameOf(owner))] : badge("none", "bad")),
      el("dt", {}, "Epoch"), el("dd", {}, number(space.epoch[shard])),
      el("dt", {}, "State"), el("dd", {}, STATES[space.state[shard]]),
      since ? [el("dt", {}, "Since"), el("dd", {}, when(since), ` (${span(Date.now() - since)})`)] : null),
    value?.why ? el("p", {}, value.why) : error ? el("p", { class: "quiet" }, `Cannot explain the placement: ${error}`) : null,
    value?.history?.length ? el("ol", { class: "story" }, value.history.slice(0, 12).map((each) => el("li", {},
      when(each.at_ms), " ", each.what, each.owner ? [" ", el("span", { title: each.owner }, each.owner_name ?? nameOf(each.owner))] : null, el("span", { class: "quiet" }, ` epoch ${each.epoch}`)))) : null,
    el("form", { class: "row", onsubmit: (event) => { event.preventDefault(); pin(name, shard, event.currentTarget.elements.node.value || null); } },
      el("label", {}, "Pin to ", el("select", { name: "node" }, el("option", { value: "" }, "not pinned"),
        space.nodes.map((each) => el("option", { value: each }, nameOf(each))))), el("button", {}, "Pin")));
}

// --- the page ---

function showPicture(nodes, name, shard) {
  const cluster = state.cluster;
  const isHere = space && space.name === name;
  const pointed = view.shard >= 0 ? view.shard : shard;
  const owner = isHere && pointed >= 0 ? space.nodes[space.owner[pointed]] : null;
  const text = isHere && pointed >= 0 ? `${owner ? nameOf(owner) : "no owner"}, epoch ${space.epoch[pointed]}, ${STATES[space.state[pointed]]}` : "";
  const model = { nodes: nodes.map((node) => ({ address: node.address, zone: node.zone, weight: node.weight, isDead: isDead(node),
    isDraining: Boolean(node.is_draining), isPlaced: node.is_placed !== false && !isDead(node) })), points: cluster.ring?.points, pointsKey: pointsKey(cluster.ring?.points),
    space: isHere ? space : null, lit: view.lit, shard: pointed, text,
    onPoint: (at, isByKey) => { if (at !== view.shard || isByKey) { view.shard = at; schedule(); } },
    onPick: (at) => { location.hash = to("cluster", name, at); } };
  const middle = isHere && pointed >= 0
    ? [el("b", {}, `shard ${number(pointed)}`), el("span", {}, owner ? nameOf(owner) : "no owner"), el("span", { class: "quiet" }, `epoch ${number(space.epoch[pointed])}, ${STATES[space.state[pointed]]}`)]
    : isHere ? [el("b", { class: "big" }, number(space.n)), el("span", {}, `shards of ${name}`), el("span", { class: "quiet" }, `${space.engine}, version ${number(space.version)}`)]
      : [el("b", { class: "big" }, number(nodes.filter((node) => !isDead(node)).length)), el("span", {}, nodes.length === 1 ? "node" : "nodes on the ring")];
  return el("div", { class: "picture", "data-key": "picture" }, live("ring", makeRing, model), el("div", { class: "middle", "aria-hidden": "true" }, middle));
}

let pointsSeen = null, nPoints = 0;
function pointsKey(points) {
  if (points !== pointsSeen) {
    pointsSeen = points;
    nPoints = (points ?? []).reduce((sum, [position, index]) => (sum * 31 + position + index * 7919) % 1e9, points?.length ?? 0);
  }
  return nPoints;
}

function showSpaces(entry, wanted) {
  if (!entry.value) return null;
  const spaces = entry.value.spaces;
  if (spaces.length === 0) return el("p", { class: "quiet" }, "No space has shards yet. The ring shows each node's share of the keys.");
  return el("div", { class: "row spaces", role: "group", "aria-label": "Spaces" }, spaces.map((each) =>
    el("a", { class: "tab", href: to("cluster", each.name), "aria-current": each.name === wanted && "true" },
      each.name, el("span", { class: "quiet" }, ` ${each.engine}`), each.n_moving ? badge(`${number(each.n_moving)} moving`, "warn") : null,
      each.trouble ? el("span", { class: "bad" }, each.trouble) : null,
      each.migration ? badge(`to ${each.migration.to}: ${each.migration.phase}`, "warn") : null)));
}

export function show([asked, shardText]) {
  if (!state.cluster) return [el("h2", {}, "Cluster"), loading("the cluster's state")];
  const nodes = allNodes();
  const spaces = topic("spaces");
  const name = asked ?? spaces.value?.spaces[0]?.name ?? null;
  if (name) follow(name);
  else listenTo(null);
  const isHere = name && space?.name === name;
  const shard = shardText !== undefined && /^\d+$/.test(shardText) ? Number(shardText) : -1;
  const sums = isHere ? counts() : null;
  const dead = nodes.filter(isDead);
  const zones = new Set(nodes.map((node) => node.zone).filter(Boolean));
  const moves = isHere ? space.moves.slice(-6).reverse() : [];
  const ledger = showLedger(), isChecked = Boolean(state.ledger?.ledger);
  return [
    el("h2", {}, "Cluster"),
    el("div", { class: "facts" },
      fact(number(nodes.length - dead.length), nodes.length - dead.length === 1 ? "node alive" : "nodes alive"),
      dead.length ? fact(number(dead.length), dead.length === 1 ? "node down" : "nodes down", "bad", "Dead, evicted or off the ring") : null,
      zones.size ? fact(number(zones.size), zones.size === 1 ? "zone" : "zones") : null,
      sums ? fact(number(space.n - sums.nLost), "shards owned") : null,
      sums && sums.nMoving ? fact(number(sums.nMoving), "moving", "warn") : null,
      sums && sums.nLost ? fact(number(sums.nLost), "unowned", "bad") : null),
    isChecked ? ledger : null,
    showSpaces(spaces, name),
    el("div", { class: "split", "data-key": "split" },
      showPicture(nodes, name, shard),
      el("div", { class: "side" },
        isHere ? el("form", { class: "row", "data-key": "goto", onsubmit: (event) => {
          event.preventDefault();
          const at = event.currentTarget.elements.shard.value;
          if (at !== "") location.hash = to("cluster", name, at);
        } }, el("label", {}, "Shard ", el("input", { name: "shard", type: "number", min: "0", max: String(space.n - 1), required: true })), el("button", {}, "Show")) : null,
        isHere && shardText !== undefined ? showShard(name, shard) : null,
        name && !isHere ? (whyNot?.name === name && whyNot.text ? nothing(`Cannot show ${name}`, whyNot.text) : loading(`the shards of ${name}`)) : null,
        absent(spaces, "spaces", el("p", { class: "quiet" }, "No spaces on this node. The ring shows each node's share of the keys.")),
        isHere ? card("Moves", { "data-key": "moves" }, moves.length ? el("ol", { class: "story" }, moves.map((move) => el("li", { "data-key": String(move.number) },
          when(move.at_ms), " ", plural(move.n, "shard"), " ", chip(move.from), " → ", chip(move.to), el("span", { class: "tiny", title: move.to }, ` ${nameOf(move.to)}`))))
          : el("p", { class: "quiet" }, "No moves since you opened this page.")) : null)),
    el("div", { class: "head", "data-key": "nodes-head" }, el("h2", {}, "Nodes"),
      el("label", {}, el("span", { class: "hidden" }, "Search nodes"), el("input", { type: "search", placeholder: "Search nodes", oninput: (event) => { view.filter = event.currentTarget.value; schedule(); } }))),
    el("div", { "data-key": "nodes" }, listNodes(nodes, sums?.counts)),
    isChecked ? null : ledger,
  ];
}
