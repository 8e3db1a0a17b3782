// Calls: latency, errors and circuit state of each replica, as its callers see it.
import { state, el, table, fact, badge, nothing, absent, topic, schedule, number, short, latency, onNews } from "./core.js";
import { histogram, spark, bar } from "./charts.js";

export const title = "Calls";
export const icon = "M4 8h13l-4-4M20 16H7l4 4";

const ROWS_MAX = 300;
const CIRCUITS = { closed: "good", "half-open": "warn", "half open": "warn", half_open: "warn", open: "bad" };
let filter = "";

// --- calls per second, computed on the page ---

const rates = new Map(); // of a row -> { at, n, values }
const keyOf = (call) => [call.collection, call.node, call.replica].join("\n");

function sample() {
  const now = Date.now();
  for (const call of topicOf() ?? []) {
    const key = keyOf(call);
    const before = rates.get(key);
    if (!before || call.n_calls < before.n) rates.set(key, { at: now, n: call.n_calls, values: before?.values ?? [] });
    else if (now - before.at >= 900) {
      before.values.push(((call.n_calls - before.n) / (now - before.at)) * 1000);
      if (before.values.length > 120) before.values.shift();
      before.at = now;
      before.n = call.n_calls;
    }
  }
  if (rates.size > 5000) rates.clear();
}
const topicOf = () => state.calls?.calls;
onNews(sample);

// --- the page ---

function showRow(call, edges) {
  const { latency: times } = call;
  const values = rates.get(keyOf(call))?.values ?? [];
  const rate = values[values.length - 1] ?? 0;
  const failed = call.n_calls ? (call.n_failed / call.n_calls) * 100 : 0;
  const text = times ? `p50 ${latency(times.p50_ms)}, p90 ${latency(times.p90_ms)}, p99 ${latency(times.p99_ms)}` : "no calls yet";
  return { key: keyOf(call), class: call.circuit === "open" ? "is-dead" : null, cells: [
    [el("span", { class: "mono" }, call.replica), call.node ? el("span", { class: "quiet under" }, `from ${call.node_name ?? call.node}`) : null],
    number(call.n_shards ?? 0),
    times?.buckets?.length ? histogram(times.buckets, edges, [[times.p50_ms, "is-p50"], [times.p99_ms, "is-p99"]], text) : el("span", { class: "quiet" }, "no calls yet"),
    ...["p50_ms", "p90_ms", "p99_ms"].map((key) => (times?.buckets?.length ? latency(times[key]) : "")),
    [spark(values, "one", `${short(rate)} calls per second`, 60), el("span", { class: "tiny" }, ` ${short(rate)}/s`)],
    failed ? el("span", { class: failed > 1 ? "bad" : "warn" }, `${failed < 0.01 ? "< 0.01" : failed < 1 ? failed.toFixed(2) : failed < 10 ? failed.toFixed(1) : Math.round(failed)} %`) : "0 %",
    call.n_hedged ? [bar([{ value: call.n_hedges_won, kind: "is-won" }, { value: call.n_hedged - call.n_hedges_won, kind: "is-rest" }], call.n_hedged,
      `${number(call.n_hedges_won)} of ${number(call.n_hedged)} hedges won`), el("span", { class: "tiny" }, ` ${number(call.n_hedges_won)} of ${number(call.n_hedged)}`)] : el("span", { class: "quiet" }, "none"),
    number(call.in_flight), call.score == null ? "" : number(Math.round(call.score * 100) / 100),
    badge(call.circuit, CIRCUITS[call.circuit] ?? "soft")] };
}

// The upper bounds of all buckets. Responses omit empty buckets; this adds them where bounds double.
function edgesOf(calls) {
  const bounds = [...new Set(calls.flatMap((call) => (call.latency?.buckets ?? []).map(([upper]) => upper)))].sort((a, b) => a - b);
  const edges = [];
  for (const edge of bounds) {
    while (edges.length && edges.length < 64 && edge / edges[edges.length - 1] >= 3.99) edges.push(edges[edges.length - 1] * 2);
    edges.push(edge);
  }
  return edges;
}

function showCollection(name, calls) {
  const edges = edgesOf(calls);
  return el("section", { "data-key": name },
    el("h3", {}, name), el("p", { class: "quiet" }, edges.length ? `All histograms share one axis (${latency(edges[0])} to ${latency(edges[edges.length - 1])}); lines mark p50 and p99.` : "No calls yet."),
    table(`Replicas of ${name}`, [{ text: "Replica" }, { text: "Shards", n: true }, { text: "Latency" }, { text: "p50", n: true }, { text: "p90", n: true }, { text: "p99", n: true },
      { text: "Calls/s" }, { text: "Failed", n: true }, { text: "Hedges won", title: "Second requests that answered before the first" }, { text: "In flight", n: true }, { text: "Score", n: true, title: "Expected wait in microseconds; the lowest score gets the call" }, { text: "Circuit", title: "The circuit breaker: open rejects calls" }],
    calls.map((call) => showRow(call, edges)), null));
}

export function show() {
  const entry = topic("calls");
  const calls = entry.value?.calls;
  const head = el("h2", {}, "Calls");
  if (!calls) return [head, absent(entry, "calls", nothing("No call statistics on this node", "Nodes with the role cache, and nodes that call others, report calls. Open the dashboard of one of them."))];
  if (calls.length === 0) return [head, nothing("No calls yet", "Latency and errors of each replica appear here when nodes call each other.", "rota get --help")];
  const wanted = filter.toLowerCase();
  const some = calls.filter((call) => `${call.collection} ${call.replica} ${call.node} ${call.node_name} ${call.circuit}`.toLowerCase().includes(wanted)).slice(0, ROWS_MAX);
  const sum = (key) => calls.reduce((total, call) => total + (call[key] ?? 0), 0);
  const nOpen = calls.filter((call) => call.circuit === "open").length;
  const collections = [...new Set(some.map((call) => call.collection))].sort();
  return [
    el("div", { class: "head" }, head, el("label", {}, el("span", { class: "hidden" }, "Search replicas"),
      el("input", { type: "search", placeholder: "Search replicas", oninput: (event) => { filter = event.currentTarget.value; schedule(); } }))),
    el("div", { class: "facts" }, fact(number(sum("n_calls")), "calls"), fact(number(sum("n_failed")), "failed", sum("n_failed") ? "warn" : null),
      fact(number(sum("n_hedged")), "hedged"), fact(number(sum("n_hedges_won")), "hedges won"), fact(number(sum("in_flight")), "in flight"),
      fact(number(nOpen), nOpen === 1 ? "circuit open" : "circuits open", nOpen ? "bad" : null)),
    calls.length > ROWS_MAX && some.length === ROWS_MAX ? el("p", { class: "quiet" }, `First ${ROWS_MAX} of ${number(calls.length)}. Search to find others.`) : null,
    collections.length ? collections.map((name) => showCollection(name, some.filter((call) => call.collection === name)
      .sort((a, b) => String(a.replica).localeCompare(b.replica)))) : nothing("No matching replicas", "Try another search."),
  ];
}
