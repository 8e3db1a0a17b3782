// A node that is none: the pages with documents as a cluster would tell them, of any size, so that
// what only a large or a broken cluster shows can be looked at, too.
"use strict";
const fs = require("node:fs");
const http = require("node:http");
const path = require("node:path");

const WEB = path.join(__dirname, "..", "..", "web");
const TYPES = { ".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml" };
// As src/node/api/api.c has it.
const POLICY = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const TOKEN = "recorded-token";
const ROLES = "queue,cache,directory,group";
const ZONES = ["a", "b", "c"];

// The same numbers each time.
function chance(seed) {
  let at = seed >>> 0;
  return () => {
    at = (Math.imul(at, 1664525) + 1013904223) >>> 0;
    return at / 2 ** 32;
  };
}

function makeNodes(n, now) {
  return Array.from({ length: n }, (_, i) => ({ name: `box-${i + 1}`, address: `10.0.${Math.floor(i / 250)}.${(i % 250) + 1}:7700`, http: `10.0.${Math.floor(i / 250)}.${(i % 250) + 1}:7780`, zone: ZONES[i % Math.min(ZONES.length, n)],
    weight: 1, state: "serving", is_alive: true, is_draining: false, is_placed: true, roles: ROLES, started_ms: now - 3600000 - i * 1000, heard_ms: now, cpu_ms: 1000 * (i + 1), memory: 20e6 + i * 1e5,
    jobs: 40 + i, calls: 1200 + i, shards: 0 }));
}

function makeCluster(n) {
  const now = Date.now(), random = chance(n);
  const nodes = makeNodes(n, now);
  const points = nodes.flatMap((_, i) => Array.from({ length: Math.min(100, Math.floor(10000 / n)) }, () => [Math.floor(random() * 2 ** 32), i])).sort((a, b) => a[0] - b[0]);
  return { node: { ...nodes[0] }, now_ms: now, nodes, ring: { points } };
}

function makeSpace(name, engine, n, nodes) {
  const random = chance(n);
  return { name, engine, version: 7, nodes: nodes.map((node) => node.address), node_names: nodes.map((node) => node.name), shards: Array.from({ length: n }, () => [Math.floor(random() * nodes.length), 1 + Math.floor(random() * 7), 0]) };
}

const ID = "0123456789abcdef0123456789abcdef";
const SCRIPT = "<script>window.isBroken = true</script><img src=x onerror=\"window.isBroken = true\">";

function makeQueues(now) {
  const queue = (name, more) => ({ name, is_paused: false, n_partitions: 16, n_waiting: 0, n_delayed: 0, n_running: 0, n_done: 0, n_dead: 0, n_cancelled: 0, oldest_ms: 0, added_total: 0, done_total: 0,
    dead_total: 0, retries_total: 0, quarantined_total: 0, worker_deaths: 0, n_workers: 0, n_slots: 0, n_free: 0, fetched_total: 0, lent_total: 0,
    wanted: 16, write: 16, read: 16, batch: 16, is_slots: true, change_from_batch: 0, change_from_slots: false, change_start_ms: 0, change_end_ms: 0, ...more });
  return { items: [
    queue("mail", { n_waiting: 120, n_delayed: 30, n_running: 8, n_done: 4000, n_dead: 3, oldest_ms: now - 14000, added_total: 5000, done_total: 4000, dead_total: 3, retries_total: 12, n_workers: 2, n_slots: 10, n_free: 2 }),
    queue("thumbnails", { n_waiting: 2, n_running: 4, n_done: 900, added_total: 906, done_total: 900, oldest_ms: now - 300, n_workers: 1, n_slots: 4 }),
    queue("reports", { is_paused: true, n_waiting: 40, oldest_ms: now - 3600000, added_total: 40 }),
  ], next: "", missing: [], missing_why: [] };
}

function makeJob(now) {
  return { explain: "It is dead: 3 attempts failed, the last one at 10.0.0.2:7700.", job: { spec: { queue: "mail", id: ID, payload: SCRIPT, can: ["smtp"], priority: 5, max_attempts: 3 }, state: "dead", cause: "failed",
    enqueued_ms: now - 60000, ended_ms: now - 20000, attempt: 3, n_attempts: 3, worker: "mailer-1", reason: `550 ${SCRIPT}`, result: "", events: [
      { at_ms: now - 60000, state: "waiting", cause: "none", attempt: 0, worker: "", reason: "" }, { at_ms: now - 58000, state: "running", cause: "none", attempt: 1, worker: "mailer-1", reason: "" },
      { at_ms: now - 52000, state: "delayed", cause: "failed", attempt: 1, worker: "mailer-1", reason: "451 greylisted" }, { at_ms: now - 45000, state: "running", cause: "none", attempt: 2, worker: "mailer-2", reason: "" },
      { at_ms: now - 41000, state: "delayed", cause: "failed", attempt: 2, worker: "mailer-2", reason: "451 greylisted" }, { at_ms: now - 24000, state: "running", cause: "none", attempt: 3, worker: "mailer-1", reason: "" },
      { at_ms: now - 20000, state: "dead", cause: "failed", attempt: 3, worker: "mailer-1", reason: `550 ${SCRIPT}` }] } };
}

function makeCalls(nodes) {
  const random = chance(3);
  const edges = [0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256];
  return { calls: nodes.slice(0, 3).flatMap((from) => nodes.slice(0, 3).filter((to) => to !== from).map((to, i) => {
    const middle = 2 + Math.floor(random() * 3), isSlow = to === nodes[2];
    const buckets = edges.map((edge, j) => [edge, Math.max(0, Math.round(900 / (1 + (j - middle - (isSlow ? 3 : 0)) ** 2 * 2) - 18))]);
    return { collection: "sessions", node: from.address, node_name: from.name, replica: to.address, shard: i, n_calls: 12000 + Math.round(random() * 5000), n_failed: isSlow ? 420 : 3, n_hedged: isSlow ? 310 : 20, n_hedges_won: isSlow ? 250 : 3,
      in_flight: Math.round(random() * 6), score: isSlow ? 41.5 : 3.2 + random(), circuit: isSlow ? (from === nodes[0] ? "open" : "half-open") : "closed",
      latency: { p50_ms: isSlow ? 38 : 3.1, p90_ms: isSlow ? 92 : 6.4, p99_ms: isSlow ? 180 : 14, buckets } };
  })) };
}

function makeGroup(now) {
  const partition = (name, parents, from, to, owner, state) => ({ name, parents, state, owner, token: 40, mark: now - 4000, position: 1200, started_ms: from ? now - from * 1000 : 0, ended_ms: to ? now - to * 1000 : 0 });
  const partitions = [partition("p0", [], 300, 200, "task-1", "finished"), partition("p1", [], 300, 120, "task-2", "finished"), partition("p2", [], 300, 0, "task-3", "running"),
    partition("p0-0", ["p0"], 198, 90, "task-1", "finished"), partition("p0-1", ["p0"], 196, 0, "task-2", "running"), partition("p1-0", ["p1"], 118, 0, "task-3", "running"), partition("p1-1", ["p1"], 116, 0, "task-1", "running"),
    partition("p0-0-0", ["p0-0"], 88, 0, "task-1", "running"), partition("p0-0-1", ["p0-0"], 86, 30, "task-2", "finished"), partition("p3", ["p0-0-1"], 0, 0, "", "waiting")];
  return { name: "orders", log: "sqlite:orders.db", epoch: 12, watermark: now - 9000, tasks: [{ name: "task-1", n_partitions: 2, is_leader: true }, { name: "task-2", n_partitions: 1, is_leader: false }, { name: "task-3", n_partitions: 2, is_leader: false }], partitions };
}

// As `rota up --chaos` writes it.
function makeLedger(now) {
  const faults = Object.fromEntries("job_lost job_dead job_twice job_wrong get_wrong get_unanswered row_lost row_twice row_late two_readers partition_early partition_forgotten two_owners old_owner epoch_fell shard_unowned unchecked"
    .split(" ").map((name) => [name, 0]));
  return { at_ms: now, since_ms: now - 120000, phase: "running", strikes: 11, down: [], acknowledged: 480, done: 476, cancelled: 0, unfinished: 4, gets: 600, rows: 1234, partitions: 41, looks: 1400, moves: 903, faults, told: [] };
}

// `without`: beginnings of paths that this node does not have; `isEmpty`: it has all, with nothing in it.
function serve({ nodes = 3, shards = 512, without = [], isEmpty = false } = {}) {
  const cluster = makeCluster(nodes);
  const space = makeSpace("sessions", "ring", shards, cluster.nodes);
  const now = Date.now();
  const group = makeGroup(now);
  const documents = {
    cluster,
    spaces: { spaces: isEmpty ? [] : [{ name: space.name, engine: space.engine, n_shards: shards, version: space.version, n_owned: shards, n_moving: 0, migration: null }] },
    queues: isEmpty ? { items: [], next: "", missing: [], missing_why: [] } : makeQueues(now),
    workers: { items: isEmpty ? [] : [{ name: "mailer-1", session: 1, epoch: 1, slots: 5, n_running: 4, silent_ms: 300, can: ["smtp", "html"] }, { name: "mailer-2", session: 2, epoch: 1, slots: 5, n_running: 4, silent_ms: 900, can: ["smtp"] },
      { name: "resize", session: 3, epoch: 1, slots: 4, n_running: 4, silent_ms: 100, can: [] }] },
    calls: isEmpty ? { calls: [] } : makeCalls(cluster.nodes),
    groups: { groups: isEmpty ? [] : [{ name: group.name, log: group.log, epoch: group.epoch, n_tasks: 3, n_partitions: group.partitions.length, watermark: group.watermark, why_away: null }] },
    ledger: { ledger: null, why_away: null },
  };
  const events = isEmpty ? [] : [["node", cluster.nodes[0].address, "serves"], ["node", cluster.nodes[1]?.address ?? "x", "joined zone b"], ["shard", "sessions/17", "moved, epoch 7"], ["operator", "reports", "is paused"],
    ["job", ID, SCRIPT], ["call", cluster.nodes[2]?.address ?? "x", "circuit is open"], ["group", "orders", "epoch 12 begins"]]
    .map(([kind, subject, text], i) => ({ number: i + 1, at_ms: now - 60000 + i * 5000, kind, subject, text, subject_name: cluster.nodes.find((node) => node.address === subject)?.name, node: cluster.nodes[0].address, node_name: cluster.nodes[0].name }));
  const changes = []; // that were asked for, and done
  const previews = []; // plans that a test answers itself: is(what is asked for), take(reply), plan
  const clients = new Set();
  const plan = { moves: Math.round(shards * 0.27), n_shards: shards, minimum: Math.round(shards / 4), spread_before: cluster.nodes.map((node) => [node.address, Math.round(shards / nodes)]),
    spread_after: [...cluster.nodes.map((node) => [node.address, Math.round(shards / (nodes + 1))]), ["new-1:7700", Math.round(shards / (nodes + 1))]], per_space: [{ name: "sessions", moves: Math.round(shards * 0.27), minimum: Math.round(shards / 4) }],
    steps: ["new-1:7700 joins zone a with weight 1.", `${Math.round(shards * 0.27)} shards of sessions move to it.`] };

  const parts = {
    "": () => null,
    cluster: () => documents.cluster, queues: () => documents.queues, workers: () => documents.workers, calls: () => documents.calls, groups: () => documents.groups, spaces: () => documents.spaces,
    ledger: () => documents.ledger,
    events: () => ({ events, after: events.length }),
    [`groups/${group.name}`]: () => group, [`spaces/${space.name}`]: () => space,
    [`queues/mail/jobs/${ID}`]: () => makeJob(now),
    "plans/1": () => ({ id: "1", state: "done", predicted: plan, outcome: { ...plan, moves: plan.moves } }),
  };

  function find(name, query) {
    if (parts[name]) return parts[name]();
    let match;
    if (name === "queues/zebra") return { ...documents.queues, items: [{ ...documents.queues.items[0], name: "zebra", n_waiting: 4711 }], next: "" }; // of a later page
    if ((match = /^queues\/([^/]+)\/jobs$/.exec(name))) return { jobs: query.get("state") === "dead" && match[1] === "mail" ? [makeJob(now).job] : [], next: 0, missing: [], missing_why: [] };
    if ((match = /^spaces\/sessions\/shards\/(\d+)$/.exec(name)) && Number(match[1]) < shards) {
      const [owner, epoch] = space.shards[match[1]];
      return { shard: Number(match[1]), owner: space.nodes[owner], epoch, state: "owned", why: `It is at ${space.nodes[owner]}, the next point after its place on the ring.`,
        history: [{ at_ms: now - 600000, owner: space.nodes[owner], epoch, what: "owned" }, { at_ms: now - 3600000, owner: space.nodes[(owner + 1) % nodes], epoch: epoch - 1, what: "owned" }] };
    }
    return null;
  }

  function answer(response, status, document) {
    response.writeHead(status, { "Content-Type": "application/json", "Cache-Control": "no-store" });
    response.end(`${JSON.stringify(document)}\n`);
  }

  function takeChange(request, response, name, body) {
    const wanted = body ? JSON.parse(body) : {};
    if (name === "plan") {
      const held = previews.find((each) => each.is(wanted));
      const reply = () => answer(response, 200, held?.plan ?? plan);
      return held ? held.take(reply) : reply();
    }
    if (request.headers.authorization !== `Bearer ${TOKEN}`) return answer(response, 401, { error: "the token is not right" });
    if (name === "plan/apply") return changes.push([name, wanted]), answer(response, 200, { id: "1" });
    const node = /^nodes\/(.+)\/(drain|undrain|evict)$/.exec(name);
    if (node && wanted.is_dry_run) return answer(response, 200, { plan: [`171 shards move to others.`], is_done: false });
    changes.push([name, wanted]);
    if (node) {
      const one = cluster.nodes.find((each) => each.address === decodeURIComponent(node[1]));
      Object.assign(one, node[2] === "drain" ? { state: "draining", is_draining: true } : { state: "serving", is_draining: false });
      tell("cluster");
      return answer(response, 200, { plan: [], is_done: true });
    }
    return answer(response, 200, /jobs$/.test(name) ? { id: ID, is_new: true } : {});
  }

  function send(response, topic, document) { response.write(`event: ${topic}\ndata: ${JSON.stringify(document)}\n\n`); }
  function tell(topic) { for (const client of clients) send(client.response, topic, documents[topic]); }

  function stream(response, space_) {
    response.writeHead(200, { "Content-Type": "text/event-stream", "Cache-Control": "no-store" });
    response.write("retry: 500\n\n");
    for (const [topic, document] of Object.entries(documents)) if (!without.includes(topic)) send(response, topic, document);
    for (const event of events) send(response, "event", event);
    const client = { response, space: space_ };
    clients.add(client);
    response.on("close", () => clients.delete(client));
  }

  function handle(request, response, body) {
    const url = new URL(request.url, "http://localhost");
    const file = path.join(WEB, url.pathname === "/" ? "index.html" : path.basename(url.pathname));
    if (!url.pathname.startsWith("/api/")) {
      if (!TYPES[path.extname(file)] || !fs.existsSync(file)) return answer(response, 404, { error: "no such path" });
      response.writeHead(200, { "Content-Type": TYPES[path.extname(file)], "Content-Security-Policy": POLICY, "X-Content-Type-Options": "nosniff" });
      return response.end(fs.readFileSync(file));
    }
    const name = url.pathname.replace("/api/v1/", "");
    if (without.some((each) => name === each || name.startsWith(`${each}/`))) return answer(response, 404, { error: "no such path" });
    if (name === "stream") return stream(response, url.searchParams.get("space"));
    if (request.method === "POST") return takeChange(request, response, name, body);
    if (name === "plan") return answer(response, 405, { error: "method not allowed here" });
    const document = find(decodeURIComponent(name), url.searchParams);
    return answer(response, document ? 200 : 404, document ?? { error: "no such path" });
  }

  const server = http.createServer((request, response) => {
    let body = "";
    request.on("data", (chunk) => { body += chunk; });
    request.on("end", () => handle(request, response, body));
  });
  server.keepAliveTimeout = 1000;

  // Shards go from one node to others, a version each time.
  function move(list) {
    space.version++;
    const changed = list.map(([shard, owner]) => {
      space.shards[shard] = [owner, space.version, 0];
      return [shard, owner, space.version, 0];
    });
    documents.spaces.spaces[0].version = space.version;
    for (const client of clients) if (client.space === space.name) send(client.response, "space", { name: space.name, version: space.version, changed, nodes: space.nodes });
    tell("spaces");
  }
  function kill(index) {
    Object.assign(cluster.nodes[index], { is_alive: false, is_placed: false, state: "dead", heard_ms: Date.now() - 10000 });
    cluster.ring.points = cluster.ring.points.filter(([, node]) => node !== index);
    const left = cluster.nodes.map((_, i) => i).filter((i) => cluster.nodes[i].is_alive);
    tell("cluster");
    move(space.shards.flatMap(([owner], shard) => (owner === index ? [[shard, left[shard % left.length]]] : [])));
  }
  function beat() { // as a cluster that does something
    for (const node of cluster.nodes) node.cpu_ms += Math.round(20 + 60 * Math.random());
    for (const queue of documents.queues.items) if (!queue.is_paused) {
      queue.done_total += 4 + Math.round(Math.random() * 6);
      queue.added_total += 3 + Math.round(Math.random() * 8);
      queue.n_waiting = Math.max(0, queue.n_waiting + Math.round(Math.random() * 10 - 5));
    }
    for (const call of documents.calls.calls) call.n_calls += Math.round(Math.random() * 40);
    for (const topic of ["cluster", "queues", "calls"]) if (!without.includes(topic)) tell(topic);
  }

  return new Promise((done) => server.listen(0, "127.0.0.1", () => done({
    address: `http://127.0.0.1:${server.address().port}`, documents, changes, previews, clients, space, move, kill, beat, tell,
    disconnect() { for (const { response } of clients) response.destroy(); },
    close() { for (const { response } of clients) response.destroy(); server.closeAllConnections?.(); return new Promise((closed) => server.close(closed)); },
  })));
}

module.exports = { serve, TOKEN, SCRIPT, ID, makeLedger };
