// Events, newest first, filtered by kind and by search.
import { state, el, table, badge, button, nothing, loading, schedule, number, moment, clock } from "./core.js";

export const title = "Events";
export const icon = "M4 12h4l3-8 4 16 2-8h3";

const KINDS = ["node", "shard", "queue", "job", "call", "group", "operator"];
const SHOWN_MAX = 500;
let frozen = null; // the events on display while paused

const address = (kinds, words) => {
  const query = new URLSearchParams();
  if (kinds.length) query.set("kind", kinds.join(","));
  if (words) query.set("q", words);
  return `#/events${query.size ? `?${query}` : ""}`;
};

function day(ms) {
  const at = new Date(ms);
  return at.toDateString() === new Date().toDateString() ? clock(ms) : moment(ms);
}

export function show(rest, query) {
  const kinds = (query.get("kind") ?? "").split(",").filter(Boolean);
  const words = query.get("q") ?? "";
  const events = frozen ?? state.events;
  const counts = new Map();
  for (const event of state.events) counts.set(event.kind, (counts.get(event.kind) ?? 0) + 1);
  const wanted = words.toLowerCase();
  const found = events.filter((event) => (kinds.length === 0 || kinds.includes(event.kind)) &&
    (!wanted || `${event.kind} ${event.subject} ${event.text} ${event.subject_name ?? ""} ${event.text} ${event.node ?? ""} ${event.node_name ?? ""}`.toLowerCase().includes(wanted)));
  const some = found.slice(-SHOWN_MAX).reverse();
  const isOfSeveral = state.events.some((event) => event.node);
  const nHeld = frozen ? state.events.length - frozen.length : 0;
  const toggle = (kind) => (kinds.includes(kind) ? kinds.filter((each) => each !== kind) : [...kinds, kind]);
  const all = [...KINDS, ...[...counts.keys()].filter((kind) => !KINDS.includes(kind))];
  return [
    el("div", { class: "head" }, el("h2", {}, "Events"),
      button(frozen ? (nHeld > 0 ? `Resume (${number(nHeld)} new)` : "Resume") : "Pause", () => { frozen = frozen ? null : [...state.events]; schedule(); }, { "aria-pressed": String(Boolean(frozen)) })),
    el("div", { class: "row", "data-key": "filter" },
      el("label", { class: "grow" }, el("span", { class: "hidden" }, "Search events"), el("input", { type: "search", placeholder: "Search events", value: words,
        oninput: (event) => { history.replaceState(null, "", address(kinds, event.currentTarget.value)); schedule(); } }))),
    el("div", { class: "row", role: "group", "aria-label": "Event kinds" },
      el("a", { class: "tab", href: address([], words), "aria-current": kinds.length === 0 && "true" }, "all"),
      all.map((kind) => el("a", { class: "tab", "data-key": kind, href: address(toggle(kind), words), "aria-current": kinds.includes(kind) && "true" }, kind,
        el("span", { class: "count" }, number(counts.get(kind) ?? 0))))),
    found.length > SHOWN_MAX ? el("p", { class: "quiet" }, `Newest ${number(SHOWN_MAX)} of ${number(found.length)}.`) : null,
    el("div", { "data-key": "events" }, table("Events", [{ text: "Time" }, { text: "Kind" }, { text: "Subject" }, { text: "Event", class: "wide" }, ...(isOfSeveral ? [{ text: "Reported by" }] : [])],
      some.map((event) => ({ key: event.name, cells: [el("time", { datetime: new Date(event.at_ms).toISOString(), title: moment(event.at_ms) }, day(event.at_ms)),
        badge(event.kind, `is-${KINDS.includes(event.kind) ? event.kind : "other"}`), event.subject_name ? el("span", { title: event.subject }, event.subject_name) : el("span", { class: "mono" }, event.subject), event.text,
        ...(isOfSeveral ? [el("span", { title: event.node }, event.node_name ?? event.node)] : [])] })),
      events.length ? nothing("No matching events", "Remove a kind or change the search.")
        : state.link === "live" ? nothing("No events yet", "Nodes joining and leaving, shard moves and operator actions appear here as they happen.") : loading("events"))),
  ];
}
