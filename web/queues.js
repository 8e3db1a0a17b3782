// Queues: depth, throughput, workers, and the jobs themselves.
import { state, el, link, table, fact, badge, button, nothing, loading, absent, ask, topic, change, onTopic, toast, nameOf,
  number, short, plural, span, when, shown, to } from "./core.js";
import { timeline, spark } from "./charts.js";
import { showJob } from "./job.js";

export const title = "Queues";
export const icon = "M4 6h16M4 12h16M4 18h10";

const STATES = ["waiting", "delayed", "running", "dead", "done", "cancelled"];
const PAGE = 100;

// --- history for the plots, kept on the page: one value per second ---

const SECONDS = 600, SMOOTH = 5;
const histories = new Map(); // name of a queue -> { at, totals: [...], waiting: [...], ... }
const KEPT = ["waiting", "delayed", "running", "added", "done", "dead", "age"];

function sample() {
  const now = Date.now();
  for (const queue of state.queues?.items ?? []) {
    let history = histories.get(queue.name);
    if (!history) {
      history = { at: now - 1000, totals: [], ...Object.fromEntries(KEPT.map((key) => [key, []])) };
      histories.set(queue.name, history);
    }
    const steps = Math.min(SECONDS, Math.round((now - history.at) / 1000));
    for (let i = 0; i < steps; i++) push(history, queue, now);
    if (steps > 0) history.at = now;
  }
}

function push(history, queue, now) {
  const totals = [queue.added_total, queue.done_total, queue.dead_total];
  const before = history.totals[Math.max(0, history.totals.length - SMOOTH)] ?? totals;
  const seconds = Math.max(1, Math.min(SMOOTH, history.totals.length));
  const [added, done, dead] = totals.map((total, i) => Math.max(0, total - before[i]) / seconds);
  history.totals.push(totals);
  const values = { waiting: queue.n_waiting, delayed: queue.n_delayed, running: queue.n_running, added, done, dead,
    age: queue.n_waiting && queue.oldest_ms ? Math.max(0, now - queue.oldest_ms) : 0 };
  for (const key of KEPT) history[key].push(values[key]);
  for (const key of ["totals", ...KEPT]) if (history[key].length > SECONDS) history[key].shift();
}
setInterval(sample, 1000);
onTopic("queues", () => { if (histories.size === 0) sample(); });

const historyOf = (name) => histories.get(name) ?? Object.fromEntries(KEPT.map((key) => [key, []]));
const last = (values) => values[values.length - 1] ?? 0;
const depthOf = (history) => history.waiting.map((n, i) => n + history.delayed[i] + history.running[i]);
const oldest = (queue) => (queue.n_waiting && queue.oldest_ms ? span(Date.now() - queue.oldest_ms) : "");

// --- all queues ---

const without = (entry) => (entry.value?.missing?.length
  ? el("p", { class: "note warn", title: shown(entry.value.missing_why?.join("\n")) }, `Counts are incomplete. No response from: ${entry.value.missing.map(nameOf).join(", ")}.`) : null);

function listQueues(queues) {
  return table("Queues", [{ text: "Queue" }, { text: "Depth", title: "Waiting, delayed and running jobs over the last 2 minutes" }, { text: "Waiting", n: true }, { text: "Delayed", n: true }, { text: "Running", n: true },
    { text: "Dead", n: true }, { text: "Done/s" }, { text: "Oldest", n: true, title: "Age of the oldest job that could run now" }, { text: "Workers", n: true }, { text: "Free slots", n: true }],
  queues.map((queue) => {
    const history = historyOf(queue.name);
    return { key: queue.name, cells: [
      [link(queue.name, "queues", queue.name), queue.is_paused ? [" ", badge("paused", "warn")] : null],
      spark(depthOf(history), "one", `depth ${number(queue.n_waiting + queue.n_delayed + queue.n_running)}`),
      number(queue.n_waiting), number(queue.n_delayed), number(queue.n_running),
      queue.n_dead ? el("a", { class: "bad", href: `${to("queues", queue.name)}?state=dead` }, number(queue.n_dead)) : "0",
      [spark(history.done, "two", `${short(last(history.done))} per second`), el("span", { class: "tiny" }, ` ${short(last(history.done))}/s`)],
      oldest(queue), queue.n_workers ? number(queue.n_workers) : el("span", { class: queue.n_waiting ? "bad" : null }, "none"), number(queue.n_free)] };
  }), nothing("No queues yet", "The first job creates its queue. Add one below, or from a terminal:", "rota job add --queue mail hello"));
}

// A worker that serves several nodes is connected to each and reported by each: its slots are the
// same slots, and each node reports the jobs that it handed out.
function gather(items) {
  const byName = new Map();
  for (const item of items) {
    const known = byName.get(item.name);
    if (!known) byName.set(item.name, { ...item, nLinks: 1 });
    else Object.assign(known, { nLinks: known.nLinks + 1, slots: Math.max(known.slots, item.slots), n_running: known.n_running + item.n_running,
      silent_ms: Math.min(known.silent_ms, item.silent_ms), can: known.can ?? item.can });
  }
  return [...byName.values()].sort((a, b) => a.name.localeCompare(b.name));
}

function listWorkers(entry) {
  const workers = entry.value?.items && gather(entry.value.items);
  if (!workers) return absent(entry, "workers", nothing("No workers on this node", "Only nodes with the role queue have workers."));
  return table("Workers", [{ text: "Worker" }, { text: "Capabilities", title: "A worker also takes any job without required capabilities" }, { text: "Slots" }, { text: "Connections", n: true }, { text: "Last heartbeat", n: true }],
    workers.map((worker) => ({ key: worker.name, cells: [el("span", { class: "mono" }, worker.name),
      worker.can?.length ? worker.can.map((each) => [badge(each, "soft"), " "]) : el("span", { class: "quiet" }, worker.can ? "none" : "unknown"),
      slots(worker), number(worker.nLinks), `${span(worker.silent_ms)} ago`] })),
    nothing("No workers connected", "Jobs wait until a worker connects. Start one:", "rota work --queue mail -- cat"));
}

// One square per slot, full or empty; a number if there are many.
function slots(worker) {
  const text = `${number(worker.n_running)} of ${number(worker.slots)} running`;
  if (worker.slots > 24) return text;
  return el("span", { class: "slots", role: "img", "aria-label": text, title: text },
    Array.from({ length: Math.max(worker.slots, worker.n_running) }, (_, i) => el("i", { class: i < worker.n_running ? "is-full" : null })));
}

function showAll() {
  const entry = topic("queues");
  const queues = entry.value?.items;
  if (!queues) return [el("h2", {}, "Queues"), absent(entry, "queues", nothing("No queues on this node", "This node runs without the role queue. Open the dashboard of a node that has it."))];
  const sum = (key) => queues.reduce((total, queue) => total + (queue[key] ?? 0), 0);
  const rate = queues.reduce((total, queue) => total + last(historyOf(queue.name).done), 0);
  return [
    el("h2", {}, "Queues"), without(entry),
    queues.length ? el("div", { class: "facts" }, fact(number(sum("n_waiting")), "waiting"), fact(number(sum("n_running")), "running"),
      fact(`${short(rate)}/s`, "done"), fact(number(sum("n_dead")), "dead", sum("n_dead") ? "bad" : null)) : null,
    entry.value.next ? el("p", { class: "note" }, `The first ${number(queues.length)} queues by name, and their sums. For all of them: rota queue list`) : null,
    el("div", { "data-key": "queues" }, listQueues(queues)),
    el("h2", {}, "Workers"), el("div", { "data-key": "workers" }, listWorkers(topic("workers"))),
    el("h2", {}, "Add a job"), addForm(null),
  ];
}

// --- adding ---

const words = (text) => text.split(/[\s,]+/).filter(Boolean);

async function add(form, queue) {
  const field = (name) => form.elements[name].value;
  const name = queue ?? field("queue").trim();
  const job = { payload: field("payload") };
  if (words(field("can")).length) job.can = words(field("can"));
  for (const [key, factor] of [["priority", 1], ["delay_ms", 1000], ["max_attempts", 1]])
    if (field(key) !== "") job[key] = Math.round(Number(field(key)) * factor);
  const added = await change(`/api/v1/queues/${encodeURIComponent(name)}/jobs`, job);
  if (!added) return;
  toast(added.is_new === false ? "The job exists already." : "Job added.", true);
  form.elements.payload.value = "";
  location.hash = to("queues", name, added.id);
}

function addForm(queue) {
  const input = (name, text, attributes) => el("label", {}, text, el("input", { name, ...attributes }));
  return el("form", { class: "card", "data-key": "add", onsubmit: (event) => { event.preventDefault(); add(event.currentTarget, queue); } },
    el("div", { class: "fields" },
      queue ? null : input("queue", "Queue", { required: true, maxlength: "255", autocomplete: "off", placeholder: "mail" }),
      input("can", "Required capabilities", { placeholder: "none", autocomplete: "off", title: "Only workers with all of these get the job; separate them by spaces" }),
      input("priority", "Priority", { type: "number", min: "-32768", max: "32767", placeholder: "0" }),
      input("delay_ms", "Delay (seconds)", { type: "number", min: "0", step: "any", placeholder: "0" }),
      input("max_attempts", "Attempts", { type: "number", min: "1", placeholder: "5" })),
    el("label", {}, "Payload", el("textarea", { name: "payload", rows: "3", spellcheck: "false" })),
    el("p", {}, el("button", { class: "main" }, "Add")));
}

// --- one queue ---

async function retryAll(base, jobs) {
  let n = 0;
  for (const job of jobs) {
    if (!(await change(`${base}/jobs/${job.spec.id}/retry`))) break;
    n++;
  }
  if (n) toast(`Retrying ${plural(n, "job")}.`, true);
}

function listJobs(name, query) {
  const wanted = STATES.includes(query.get("state")) ? query.get("state") : "waiting";
  const base = `/api/v1/queues/${encodeURIComponent(name)}`;
  const after = /^\d+$/.test(query.get("after") ?? "") ? query.get("after") : "0";
  const entry = ask(`${base}/jobs?state=${wanted}&max=${PAGE}${after === "0" ? "" : `&after=${after}`}`, 1500);
  const queue = state.queues?.items.find((each) => each.name === name);
  const jobs = entry.value?.jobs;
  const tabs = el("div", { class: "row", role: "group", "aria-label": "Jobs by state" }, STATES.map((each) =>
    el("a", { class: "tab", href: `${to("queues", name)}?state=${each}`, "aria-current": each === wanted && "true" }, each,
      queue ? el("span", { class: "count" }, number(queue[`n_${each}`] ?? 0)) : null)));
  if (!jobs) return [tabs, absent(entry, "jobs", nothing("Queue not found", "The first job creates its queue."))];
  return [
    tabs, without(entry),
    wanted === "dead" && jobs.length ? el("p", { class: "row" }, button(jobs.length === 1 ? "Retry this job" : `Retry these ${jobs.length}`, () => retryAll(base, jobs), { class: "main" })) : null,
    table(`Jobs, ${wanted}`, [{ text: "Job" }, { text: "Since" }, { text: "Attempts", n: true }, { text: "Worker" }, { text: "Reason" }, { text: "Actions", isHidden: true }],
      jobs.map((job) => ({ key: job.spec.id, cells: [el("a", { class: "mono", href: to("queues", name, job.spec.id) }, job.spec.id),
        when(job.ended_ms || job.enqueued_ms), number(job.n_attempts), el("span", { class: "mono" }, job.worker), el("span", { class: "clip", title: shown(job.reason) }, shown(job.reason)),
        ["dead", "cancelled"].includes(wanted) ? button("Retry", () => change(`${base}/jobs/${job.spec.id}/retry`), { class: "small", "aria-label": `Retry ${job.spec.id}` }) : null] })),
      nothing(`No ${wanted} jobs`, wanted === "dead" ? "Jobs that fail permanently stay here (the dead-letter queue) until you retry them." : "Choose another state above.")),
    el("p", { class: "row" }, after === "0" ? null : el("a", { href: `${to("queues", name)}?state=${wanted}` }, "First page"),
      entry.value.next && Number(entry.value.next) ? el("a", { href: `${to("queues", name)}?state=${wanted}&after=${entry.value.next}` }, "Next page") : null),
  ];
}

function showQueue(name, query) {
  const entry = topic("queues");
  const base = `/api/v1/queues/${encodeURIComponent(name)}`;
  const listed = entry.value?.items.find((each) => each.name === name);
  const alone = !listed && entry.value?.next ? ask(base, 1500) : null; // it may be on a later page
  const queue = listed ?? alone?.value?.items[0];
  const history = historyOf(name);
  const lines = (...keys) => keys.map((key) => ({ name: key, kind: `is-${key}`, values: history[key] }));
  return [
    el("nav", { class: "crumbs", "aria-label": "Where" }, link("Queues", "queues"), " / "),
    el("div", { class: "head" }, el("h2", {}, name, queue?.is_paused ? [" ", badge("paused", "warn")] : null),
      queue ? button(queue.is_paused ? "Resume" : "Pause", async () => {
        if (await change(`${base}/${queue.is_paused ? "resume" : "pause"}`)) toast(queue.is_paused ? `Queue ${name} is resumed.` : `Queue ${name} is paused: workers get no jobs from it.`, true);
      }) : null),
    without(entry),
    queue ? [el("div", { class: "facts" }, fact(number(queue.n_waiting), "waiting"), fact(number(queue.n_running), "running"), fact(`${short(last(history.done))}/s`, "done"),
      fact(oldest(queue) || "-", "oldest", null, "Age of the oldest job that could run now"), fact(number(queue.n_free), "free slots"), fact(number(queue.retries_total), "retries"),
      fact(queue.read === queue.write ? number(queue.write) : `${number(queue.write)} / ${number(queue.read)}`, queue.read === queue.write ? "partitions" : "partitions (write / read)")),
    queue.n_waiting && !queue.n_workers ? el("p", { class: "note warn" }, "Jobs are waiting, but no worker serves this queue.") : null,
    el("div", { class: "plots" },
      timeline("depth", "Depth", lines("running", "waiting", "delayed"), { isStacked: true }),
      timeline("rate", "Rate per second", lines("added", "done", "dead")),
      timeline("age", "Age of the oldest job", [{ name: "waiting", kind: "is-waiting", values: history.age }], { least: 1000, format: (ms) => (ms < 10000 ? `${(ms / 1000).toFixed(1)} s` : span(ms)) }))]
      : entry.value && (!alone || alone.status === 404) ? nothing(`No queue ${name}`, "The first job creates its queue.") : loading("the queue"),
    el("h3", {}, "Jobs"), el("div", { "data-key": "jobs" }, listJobs(name, query)),
    el("h3", {}, "Add a job"), addForm(name),
  ];
}

export function show([name, id], query) {
  if (name && id) return showJob(name, id);
  return name ? showQueue(name, query) : showAll();
}
