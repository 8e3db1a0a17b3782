// The dashboard: one stream of documents from the node, and a page that shows one of them.

const state = { cluster: null, queues: null, workers: null, events: [], rates: new Map() };
const pages = {
  cluster: { title: "Cluster", show: showCluster },
  queues: { title: "Queues", show: showQueues },
  events: { title: "Events", show: showEvents },
};

// --- elements ---

// All text goes in as text: nothing that comes from a job or a node is ever markup.
function el(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes))
    if (key === "onclick") made.addEventListener("click", value);
    else if (value !== false && value != null) made.setAttribute(key, value === true ? "" : value);
  made.append(...children.flat().filter((child) => child != null));
  return made;
}

function svg(name, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function table(heads, rows, empty) {
  if (rows.length === 0) return el("p", { class: "quiet" }, empty);
  const cell = (kind, value, i) => el(kind, heads[i].n ? { class: "n" } : {}, value ?? "");
  return el("div", { class: "scroll" }, el("table", {},
    el("thead", {}, el("tr", {}, heads.map((head) => el("th", { scope: "col", class: head.n && "n" }, head.text)))),
    el("tbody", {}, rows.map((row) => el("tr", {}, row.map((value, i) => cell("td", value, i)))))));
}

const number = (n) => n.toLocaleString("en");
function span(ms) {
  const s = Math.max(0, Math.round(ms / 1000));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor(s / 60) % 60} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor(s / 3600) % 24} h`;
}
const bytes = (n) => (n < 1 << 20 ? `${Math.round(n / 1024)} KiB` : `${Math.round(n / (1 << 20))} MiB`);
const moment = (ms) => new Date(ms).toISOString().replace("T", " ").slice(0, 19);

// --- asking and changing ---

function toast(text) {
  const box = document.getElementById("toast");
  box.textContent = text;
  box.hidden = false;
  clearTimeout(toast.timer);
  toast.timer = setTimeout(() => { box.hidden = true; }, 6000);
}

function askToken() {
  const dialog = document.getElementById("ask");
  const field = document.getElementById("secret");
  field.value = sessionStorage.getItem("token") ?? "";
  dialog.showModal();
  return new Promise((done) => dialog.addEventListener("close", () => {
    if (dialog.returnValue === "ok") sessionStorage.setItem("token", field.value.trim());
    done(dialog.returnValue === "ok");
  }, { once: true }));
}

async function change(path, body) {
  if (!sessionStorage.getItem("token") && !(await askToken())) return null;
  const answer = await fetch(path, {
    method: "POST",
    headers: { Authorization: `Bearer ${sessionStorage.getItem("token")}`, "Content-Type": "application/json" },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  const result = await answer.json().catch(() => ({ error: answer.statusText }));
  if (answer.status === 401) sessionStorage.removeItem("token");
  if (!answer.ok) toast(result.error);
  return answer.ok ? result : null;
}

async function look(path) {
  const answer = await fetch(path);
  const result = await answer.json().catch(() => ({ error: answer.statusText }));
  if (!answer.ok) throw new Error(result.error);
  return result;
}

// --- Cluster ---

function drawRing(nodes) {
  const middle = 170, radius = 110;
  const picture = svg("svg", { viewBox: "0 0 340 340", class: "ring", role: "img",
    "aria-label": `${nodes.length} nodes on the ring` });
  picture.append(svg("circle", { cx: middle, cy: middle, r: radius, fill: "none", stroke: "var(--line)", "stroke-width": 10 }));
  nodes.forEach((node, i) => {
    const angle = (i / nodes.length) * 2 * Math.PI - Math.PI / 2;
    const x = middle + radius * Math.cos(angle), y = middle + radius * Math.sin(angle);
    const color = node.is_draining ? "var(--warn)" : node.is_placed ? "var(--good)" : "var(--bad)";
    const text = svg("text", { x, y: y + (Math.sin(angle) < -0.2 ? -18 : 26), "text-anchor": "middle" });
    text.textContent = node.name + (node.zone ? ` (${node.zone})` : "");
    picture.append(svg("circle", { cx: x, cy: y, r: 12, fill: color, stroke: "var(--card)", "stroke-width": 3 }), text);
  });
  return picture;
}

function showCluster() {
  const cluster = state.cluster;
  if (!cluster) return [el("p", { class: "quiet" }, "Waiting for the first news of the cluster.")];
  const self = cluster.node;
  return [
    el("h2", {}, "Cluster"),
    el("div", { class: "split" }, el("div", { class: "card" }, drawRing(cluster.nodes)), el("div", {},
      table([{ text: "Node" }, { text: "Zone" }, { text: "Weight", n: true }, { text: "State" }],
        cluster.nodes.map((node) => [el("span", { class: "mono" }, node.name), node.zone, String(node.weight),
          node.is_draining ? el("span", { class: "warn" }, "draining")
            : node.is_placed ? el("span", { class: "good" }, "on the ring") : el("span", { class: "bad" }, "off the ring")]),
        "No node is listed."),
      el("h2", {}, "This node"),
      el("div", { class: "cards" },
        el("div", { class: "card" }, el("b", {}, self.state), self.name),
        el("div", { class: "card" }, el("b", {}, span(Date.now() - self.started_ms)), "up"),
        el("div", { class: "card" }, el("b", {}, number(self.jobs ?? 0)), "jobs here"),
        el("div", { class: "card" }, el("b", {}, bytes(self.memory_max)), "most memory used")))),
  ];
}

// --- Queues ---

function rate(queue) {
  const before = state.rates.get(queue.name);
  return before ? `${number(Math.round(before.perSecond))}/s` : "";
}

function measure(queues) {
  const now = performance.now();
  for (const queue of queues) {
    const before = state.rates.get(queue.name);
    const perSecond = before ? Math.max(0, (queue.done_total - before.done) / ((now - before.at) / 1000)) : 0;
    if (!before || now - before.at > 900)
      state.rates.set(queue.name, { at: now, done: queue.done_total, perSecond });
  }
}

function showQueues(name, id) {
  if (name && id) return showJob(name, id);
  if (name) return showQueue(name);
  const queues = state.queues?.items;
  if (!queues) return [el("p", { class: "quiet" }, "Waiting for the queues.")];
  return [
    el("h2", {}, "Queues"),
    table([{ text: "Queue" }, { text: "Waiting", n: true }, { text: "Delayed", n: true }, { text: "Running", n: true },
      { text: "Dead", n: true }, { text: "Done", n: true }, { text: "Oldest waits", n: true }, { text: "Workers", n: true }],
      queues.map((queue) => [
        el("a", { href: `#/queues/${encodeURIComponent(queue.name)}` }, queue.name + (queue.is_paused ? " (paused)" : "")),
        number(queue.n_waiting), number(queue.n_delayed), number(queue.n_running),
        el("span", { class: queue.n_dead ? "bad" : "" }, number(queue.n_dead)), rate(queue),
        queue.oldest_ms ? span(Date.now() - queue.oldest_ms) : "", number(queue.n_workers)]),
      "There are no queues yet. Add a job: rota job add --queue mail hello"),
    el("h2", {}, "Workers"),
    table([{ text: "Worker" }, { text: "Running", n: true }, { text: "Slots", n: true }, { text: "Heard", n: true }],
      (state.workers?.items ?? []).map((worker) => [el("span", { class: "mono" }, worker.name),
        number(worker.n_running), number(worker.slots), `${span(worker.silent_ms)} ago`]),
      "No worker is connected. Start one: rota work --queue mail -- cat"),
  ];
}

function showQueue(name) {
  const queue = state.queues?.items.find((each) => each.name === name);
  const base = `/api/v1/queues/${encodeURIComponent(name)}`;
  const list = el("div", {}, el("p", { class: "quiet" }, "Looking."));
  const wanted = state.filter ?? "dead";
  look(`${base}/jobs?state=${wanted}&max=100`).then(({ jobs }) => list.replaceChildren(
    table([{ text: "Job" }, { text: "Since" }, { text: "Attempts", n: true }, { text: "Why" }],
      jobs.map((job) => [el("a", { class: "mono", href: `#/queues/${encodeURIComponent(name)}/${job.spec.id}` }, job.spec.id),
        moment(job.ended_ms || job.enqueued_ms), String(job.n_attempts), shown(job.reason)]),
      `No job is ${wanted}.`)), (error) => list.replaceChildren(el("p", { class: "bad" }, error.message)));
  return [
    el("p", {}, el("a", { href: "#/queues" }, "All queues")),
    el("h2", {}, name),
    queue && el("div", { class: "cards" },
      ...["waiting", "delayed", "running", "done", "dead"].map((key) =>
        el("div", { class: "card" }, el("b", {}, number(queue[`n_${key}`])), key))),
    el("p", {},
      el("button", { type: "button", onclick: async () => (await change(`${base}/${queue?.is_paused ? "resume" : "pause"}`)) && render() },
        queue?.is_paused ? "Resume" : "Pause")),
    el("h2", {}, "Jobs"),
    el("p", {}, ["waiting", "delayed", "running", "dead", "done", "cancelled"].map((each) =>
      el("button", { type: "button", "aria-pressed": String(each === wanted), class: each === wanted && "main",
        onclick: () => { state.filter = each; render(); } }, each)).flatMap((button) => [button, " "])),
    list,
    el("h2", {}, "Add a job"),
    el("div", { class: "card" },
      el("label", { for: "payload" }, "Payload"), el("textarea", { id: "payload", rows: "3" }),
      el("p", {}, el("button", { type: "button", class: "main", onclick: async () => {
        const added = await change(`${base}/jobs`, { payload: document.getElementById("payload").value });
        if (added) location.hash = `#/queues/${encodeURIComponent(name)}/${added.id}`;
      } }, "Add"))),
  ];
}

const shown = (value) => (typeof value === "string" ? value : value?.base64 ? `base64: ${value.base64}` : "");

function showJob(name, id) {
  const box = el("div", {}, el("p", { class: "quiet" }, "Looking."));
  const base = `/api/v1/queues/${encodeURIComponent(name)}/jobs/${encodeURIComponent(id)}`;
  look(base).then(({ job, explain }) => box.replaceChildren(
    el("div", { class: "card" }, el("b", {}, job.state), explain),
    el("p", {}, ["dead", "cancelled"].includes(job.state)
      ? el("button", { type: "button", class: "main", onclick: async () => (await change(`${base}/retry`)) && render() }, "Try again")
      : ["waiting", "delayed", "running"].includes(job.state)
        ? el("button", { type: "button", onclick: async () => (await change(`${base}/cancel`)) && render() }, "Cancel") : null),
    el("h2", {}, "Payload"), el("pre", { class: "card mono" }, shown(job.spec.payload)),
    el("h2", {}, "Result"), el("pre", { class: "card mono" }, shown(job.result) || shown(job.reason)),
    el("h2", {}, "Story"),
    table([{ text: "When" }, { text: "State" }, { text: "Cause" }, { text: "Worker" }, { text: "Why" }],
      job.events.map((event) => [moment(event.at_ms), event.state, event.cause === "none" ? "" : event.cause,
        event.worker, shown(event.reason)]), "Nothing has happened yet.")),
  (error) => box.replaceChildren(el("p", { class: "bad" }, error.message)));
  return [
    el("p", {}, el("a", { href: `#/queues/${encodeURIComponent(name)}` }, name)),
    el("h2", { class: "mono" }, id), box,
  ];
}

// --- Events ---

function showEvents() {
  return [
    el("h2", {}, "Events"),
    table([{ text: "When" }, { text: "Kind" }, { text: "What" }, { text: "" }],
      state.events.slice(-500).reverse().map((event) => [moment(event.at_ms), event.kind,
        el("span", { class: "mono" }, event.subject), event.text]), "Nothing has happened yet."),
  ];
}

// --- the frame ---

function route() {
  const [page, ...rest] = location.hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
  return { page: pages[page] ? page : "cluster", rest };
}

function render() {
  const { page, rest } = route();
  document.title = `${pages[page].title} - Rota`;
  document.getElementById("nav").replaceChildren(...Object.entries(pages).map(([key, { title }]) =>
    el("li", {}, el("a", { href: `#/${key}`, "aria-current": key === page && "page" }, title))));
  document.getElementById("main").replaceChildren(...pages[page].show(...rest).filter((each) => each != null));
}

// A page that somebody is typing into, or that asks for what it shows, is left alone.
function refresh(topic) {
  const { page, rest } = route();
  const isLive = page === topic || (page === "queues" && topic === "workers");
  if (isLive && rest.length === 0) render();
}

function say(text, isAway) {
  const link = document.getElementById("link");
  link.textContent = text;
  link.classList.toggle("away", isAway);
}

function listen() {
  const source = new EventSource("/api/v1/stream");
  source.addEventListener("open", () => say("live", false));
  source.addEventListener("error", () => say("disconnected, trying again", true));
  for (const topic of ["cluster", "queues", "workers"])
    source.addEventListener(topic, (event) => {
      state[topic] = JSON.parse(event.data);
      if (topic === "queues") measure(state.queues.items);
      refresh(topic);
    });
  source.addEventListener("event", (event) => {
    state.events.push(JSON.parse(event.data));
    if (state.events.length > 4096) state.events.shift();
    refresh("events");
  });
}

window.addEventListener("hashchange", () => { render(); document.getElementById("main").focus(); });
document.getElementById("token").addEventListener("click", askToken);
render();
listen();
