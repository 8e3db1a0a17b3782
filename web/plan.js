// Plan: what a change of hosts, weights or routing would move, before you apply it; then its outcome
// compared with the prediction.
import { state, el, link, table, fact, badge, button, nothing, absent, ask, change, confirm, weigh, schedule, nameOf, byName, number, plural, to } from "./core.js";
import { bar } from "./charts.js";
import { chip } from "./ring.js";

export const title = "Plan";
export const icon = "M4 18l5-6 4 3 7-9M4 21h16";

const form = { add: [], remove: new Set(), zone: "", weights: new Map(), batch: null, mode: "", counts: new Map(), gradual: 0 };
let result = null, why = null, isStale = false, isUnderWay = false, timer = null, nAdded = 0;
let previewed = null, nPreviews = 0; // the request that `result` answers; number of requests
const QUEUES_MAX = 50;

function request() {
  const body = {};
  if (form.add.length) body.add = form.add.map(({ name, zone, weight }) => ({ name, zone, weight: Number(weight) }));
  if (form.remove.size) body.remove = [...form.remove];
  if (form.zone) body.remove_zone = form.zone;
  if (form.weights.size) body.weights = Object.fromEntries(form.weights);
  if (form.batch != null) body.batch = form.batch;
  if (form.mode) body.mode = form.mode;
  if (form.counts.size) body.counts = Object.fromEntries(form.counts);
  return body;
}
const isEmpty = () => Object.keys(request()).length === 0;

// A response counts only if nothing was requested or changed after its request.
async function preview() {
  const own = ++nPreviews, body = request();
  clearTimeout(timer);
  isUnderWay = true;
  schedule();
  let answer = null, failure = null;
  try {
    answer = await weigh("/api/v1/plan", body);
  } catch (error) {
    failure = error.message;
  }
  if (own !== nPreviews) return;
  result = answer;
  why = failure;
  previewed = body;
  isStale = isUnderWay = false;
  schedule();
}

// Preview the change while the user edits the form.
function touch() {
  nPreviews++;
  isUnderWay = false;
  isStale = true;
  clearTimeout(timer);
  if (!isEmpty()) timer = setTimeout(preview, 350);
  schedule();
}

async function apply() {
  const body = { ...previewed, gradual_ms: form.gradual * 60000 };
  const steps = [...(result.steps ?? []), form.gradual ? `The change rolls out over ${form.gradual} min.` : "The change applies immediately."];
  if (!(await confirm(result.moves ? `Move ${plural(result.moves, "shard")}?` : "Apply the change? No shards move.", steps, "Apply"))) return;
  const made = await change("/api/v1/plan/apply", body);
  if (made) location.hash = to("plan", String(made.id));
}

function clear() {
  Object.assign(form, { add: [], remove: new Set(), zone: "", weights: new Map(), batch: null, mode: "", counts: new Map(), gradual: 0 });
  clearTimeout(timer);
  nPreviews++;
  result = why = previewed = null;
  isUnderWay = isStale = false;
  for (const each of document.querySelectorAll("#plan-form")) each.reset();
  schedule();
}

// --- the form ---

function hostRow(node) {
  const weight = form.weights.get(node.address) ?? node.weight;
  const isLost = form.remove.has(node.address) || (form.zone !== "" && node.zone === form.zone);
  return el("li", { "data-key": node.address, class: isLost ? "is-lost" : null },
    el("span", { class: "name" }, chip(node.address), " ", el("span", { title: node.address }, node.name), node.zone ? el("span", { class: "quiet" }, ` ${node.zone}`) : null),
    el("label", { class: "slide" }, el("span", { class: "hidden" }, `Weight of ${node.name}`),
      el("input", { type: "range", min: "0", max: String(Math.max(4, node.weight * 2)), step: "0.25", value: String(node.weight), disabled: isLost, oninput: (event) => {
        const chosen = Number(event.currentTarget.value);
        if (chosen === node.weight) form.weights.delete(node.address);
        else form.weights.set(node.address, chosen);
        touch();
      } }), el("output", { class: weight === node.weight ? "quiet" : "changed" }, isLost ? "removed" : `× ${weight}`)),
    el("label", { class: "check" }, el("input", { type: "checkbox", onchange: (event) => {
      if (event.currentTarget.checked) form.remove.add(node.address);
      else form.remove.delete(node.address);
      touch();
    } }), " remove", el("span", { class: "hidden" }, ` ${node.name}`)));
}

function addedRow(host) {
  const field = (key, label, attributes) => el("label", {}, label, el("input", { value: String(host[key]), ...attributes, oninput: (event) => { host[key] = event.currentTarget.value; touch(); } }));
  return el("li", { "data-key": `added-${host.number}`, class: "is-new" }, field("name", "Name", { required: true, autocomplete: "off" }), field("zone", "Zone", { autocomplete: "off" }),
    field("weight", "Weight", { type: "number", min: "0", step: "0.25" }), button("Remove", () => { form.add = form.add.filter((each) => each !== host); touch(); }, { class: "small" }));
}

function showForm(nodes) {
  const zones = [...new Set(nodes.map((node) => node.zone).filter(Boolean))].sort();
  const queues = state.queues?.items ?? [];
  return el("form", { id: "plan-form", "data-key": "form", class: "plan", onsubmit: (event) => { event.preventDefault(); preview(); } },
    el("fieldset", {}, el("legend", {}, "Hosts"), el("ul", { class: "hosts" }, [...nodes].sort(byName).map(hostRow), form.add.map(addedRow)),
      button("Add a host", () => { form.add.push({ number: ++nAdded, name: `new-${nAdded}:7700`, zone: zones[0] ?? "", weight: 1 }); touch(); })),
    el("fieldset", {}, el("legend", {}, "Zone and routing"), el("div", { class: "fields" },
      zones.length ? el("label", {}, "Remove zone", el("select", { onchange: (event) => { form.zone = event.currentTarget.value; touch(); } },
        el("option", { value: "" }, "none"), zones.map((zone) => el("option", { value: zone }, zone)))) : null,
      el("label", {}, "Mode", el("select", { onchange: (event) => { form.mode = event.currentTarget.value; touch(); } },
        el("option", { value: "" }, "unchanged"), ["lookup", "slots"].map((mode) => el("option", { value: mode }, mode)))),
      el("label", { class: "slide" }, "Batch ", el("output", { class: form.batch == null ? "quiet" : "changed" }, form.batch == null ? "unchanged" : String(form.batch)),
        el("input", { type: "range", min: "-1", max: "64", value: "-1", oninput: (event) => { const chosen = Number(event.currentTarget.value); form.batch = chosen < 0 ? null : chosen; touch(); } })))),
    queues.length ? el("fieldset", {}, el("legend", {}, "Queue partitions"), el("div", { class: "fields" }, queues.slice(0, QUEUES_MAX).map((queue) => el("label", { "data-key": queue.name }, queue.name,
      el("input", { type: "number", min: "1", max: "65536", placeholder: queue.wanted ? String(queue.wanted) : "unchanged", oninput: (event) => {
        if (event.currentTarget.value === "") form.counts.delete(queue.name);
        else form.counts.set(queue.name, Number(event.currentTarget.value));
        touch();
      } })))), queues.length > QUEUES_MAX ? el("p", { class: "quiet" }, `First ${QUEUES_MAX} of ${number(queues.length)} queues. For others, use rota queue partitions.`) : null) : null,
    el("p", { class: "row" }, el("button", { class: "main", disabled: isEmpty() || isUnderWay }, isUnderWay ? "Computing" : "Preview"), button("Reset", clear),
      isEmpty() ? el("span", { class: "quiet" }, "Change something above. Nothing happens until you apply it.") : null));
}

// --- the preview ---

const asMove = (a, b) => [number(a), " → ", el("b", {}, number(b))];
const asOutcome = (a, b) => [el("b", {}, number(b)), ` of ${number(a)}`];

function showSpread(before, after, words = ["before", "after"], format = asMove) {
  const was = new Map(before), will = new Map(after);
  const names = [...new Set([...was.keys(), ...will.keys()])];
  const top = Math.max(1, ...was.values(), ...will.values());
  return el("ul", { class: "spread", tabindex: "0", "aria-label": `Shards per node, ${words.join(" and ")}` }, names.map((name) => {
    const a = was.get(name) ?? 0, b = will.get(name) ?? 0;
    return el("li", { "data-key": name }, el("span", { class: "name" }, chip(name), " ", el("span", { title: name }, nameOf(name))),
      el("span", { class: "two" }, bar([{ value: a, kind: "is-before" }], top, `${number(a)} ${words[0]}`), bar([{ value: b, kind: "is-after" }], top, `${number(b)} ${words[1]}`)),
      el("span", { class: "n" }, format(a, b)));
  }));
}

function spreadOf(list) {
  const values = list.map(([, n]) => n).filter((n) => n > 0);
  if (values.length === 0) return "-";
  return `${(Math.max(...values) / (values.reduce((sum, n) => sum + n, 0) / values.length)).toFixed(2)} × mean`;
}

function showResult() {
  if (why) return el("section", { class: "card", "data-key": "result" }, nothing("Cannot plan this change", why));
  if (!result) return el("section", { class: "card", "data-key": "result" }, nothing("No changes yet", "Choose a change. Its moves and the new distribution of shards appear here before you apply it."));
  const share = result.n_shards ? (result.moves / result.n_shards) * 100 : 0;
  return el("section", { class: isStale ? "card is-stale" : "card", "data-key": "result", "aria-live": "polite" },
    el("h3", {}, "Preview"),
    el("div", { class: "facts" }, fact(number(result.moves), `of ${plural(result.n_shards, "shard")} move (${share.toFixed(1)} %)`), fact(number(result.minimum), "for even shares", null, "The fewest moves to an even placement; a plan whose shares are less even can move fewer"), result.lost ? fact(number(result.lost), "would have no owner", "bad") : null,
      fact(spreadOf(result.spread_after ?? []), `fullest node, was ${spreadOf(result.spread_before ?? [])}`)),
    bar([{ value: Math.min(result.moves, result.minimum), kind: "is-after" }, { value: Math.max(0, result.moves - result.minimum), kind: "is-more" }], Math.max(result.n_shards, 1), `${number(result.moves)} moves; for even shares: ${number(result.minimum)}`),
    el("h3", {}, "Shards per node"), showSpread(result.spread_before ?? [], result.spread_after ?? []),
    result.per_space?.length ? table("Moves per space", [{ text: "Space or queue" }, { text: "Moves", n: true }, { text: "For even shares", n: true, title: "The fewest moves to an even placement; a plan whose shares are less even can move fewer" }], result.per_space.map((each) => ({ key: `${each.kind}/${each.name}`, cells: [[each.name, each.kind ? el("span", { class: "quiet" }, ` ${each.kind}`) : null], number(each.moves), number(each.minimum)] })), null) : null,
    result.steps?.length ? [el("h3", {}, "Steps"), el("ol", { class: "steps" }, result.steps.map((step) => el("li", {}, step)))] : null,
    el("div", { class: "row apply" }, el("label", { class: "slide grow" }, "Roll out ", el("output", {}, form.gradual ? `over ${form.gradual} min` : "immediately"),
      el("input", { "aria-label": "Roll out over (minutes)", type: "range", min: "0", max: "60", value: "0", oninput: (event) => { form.gradual = Number(event.currentTarget.value); schedule(); } })),
    button("Apply", apply, { class: "main", disabled: isStale || isUnderWay })));
}

function showOutcome(id) {
  const entry = ask(`/api/v1/plans/${encodeURIComponent(id)}`, 1000);
  const crumbs = el("nav", { class: "crumbs", "aria-label": "Where" }, link("Plan", "plan"), " / ");
  const plan = entry.value;
  if (!plan) return [crumbs, el("h2", {}, `Plan ${id}`), absent(entry, "the plan", nothing("Plan not found", "Only the node that applied a plan remembers it. Open the dashboard of that node."))];
  const { predicted, outcome } = plan;
  const top = Math.max(1, predicted?.moves ?? 0, outcome?.moves ?? 0);
  const isOver = plan.state === "done" || plan.state === "failed";
  const isExact = isOver && predicted && outcome;
  return [crumbs, el("h2", {}, `Plan ${id} `, badge(plan.state, plan.state === "done" ? "good" : plan.state === "failed" ? "bad" : "info")),
    el("section", { class: "card" }, el("h3", {}, "Prediction and outcome"),
      el("ul", { class: "spread" }, [["predicted", predicted, "is-before"], [isOver ? "actual" : "so far", outcome, "is-after"]].map(([text, each, kind]) => el("li", {},
        el("span", { class: "name" }, text), el("span", { class: "two" }, bar([{ value: each?.moves ?? 0, kind }], top, `${number(each?.moves ?? 0)} moves`)), el("span", { class: "n" }, plural(each?.moves ?? 0, "move"))))),
      plan.why ? el("p", { class: "bad" }, plan.why) : null,
      plan.state === "moving" ? el("p", {}, "Shards are moving, or partitions to be removed still have jobs, which run first.") : null,
      plan.state === "waiting" ? el("p", {}, "Waiting for a new node to join.") : null,
      isExact ? el("p", {}, predicted.moves === outcome.moves ? "The outcome matches the prediction." : `The outcome differs: ${plural(Math.abs(outcome.moves - predicted.moves), "move")} ${outcome.moves > predicted.moves ? "more" : "fewer"} than predicted.`) : null,
      outcome?.spread_after && predicted?.spread_after ? [el("h3", {}, "Shards per node: actual of predicted"), showSpread(predicted.spread_after, outcome.spread_after, ["predicted", "now"], asOutcome)] : null)];
}

export function show([id]) {
  if (id) return showOutcome(id);
  const head = el("h2", {}, "Plan");
  if (!state.cluster) return [head, absent({ value: null }, "the nodes", null)];
  return [head, el("div", { class: "split is-plan", "data-key": "split" }, showForm(state.cluster.nodes ?? []), showResult())];
}
