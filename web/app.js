// The dashboard's frame: which page is shown, the connection to the node, colors and shortcuts.
import { state, el, svg, patch, listen, onNews, schedule, askToken, hasToken, span, clock, to } from "./core.js";
import * as cluster from "./cluster.js";
import * as queues from "./queues.js";
import * as calls from "./calls.js";
import * as groups from "./groups.js";
import * as plan from "./plan.js";
import * as events from "./events.js";

// Each page has a title and an icon, and returns its elements for the words after its name in the
// fragment. They are rebuilt on every update and patched into the document.
const pages = { cluster, queues, calls, groups, plan, events };
const nowhere = { title: "Page not found", show: () => [el("h2", {}, "Page not found"),
  el("p", {}, "The dashboard has no page at this address. Choose one above, or go to ", el("a", { href: to("cluster") }, "Cluster"), ".")] };
const pageOf = (name) => (Object.hasOwn(pages, name) ? pages[name] : nowhere);
const byId = (id) => document.getElementById(id);

// --- where we are ---

function decode(word) {
  try { return decodeURIComponent(word); } catch { return word; }
}

function route() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const [page, ...rest] = path.split("/").map(decode);
  return { page: page === "" ? "cluster" : page, rest: rest.filter((word) => word !== ""), query: new URLSearchParams(query ?? "") };
}

function showNav(page) {
  patch(byId("nav"), Object.entries(pages).map(([name, { title, icon }], i) => el("li", { "data-key": name },
    el("a", { href: to(name), "aria-current": name === page && "page", title: `${title} (${i + 1})` },
      svg("svg", { viewBox: "0 0 24 24", "aria-hidden": "true" }, svg("path", { d: icon })), el("span", {}, title)))));
}

// --- the connection to the node ---

function showLink() {
  const box = byId("link");
  const isAway = state.link === "away";
  const name = state.cluster?.node?.name;
  patch(box, [el("span", {}, state.link === "live" ? "live" : isAway ? "disconnected" : "connecting"),
    state.link === "live" && name ? el("span", { class: "from" }, `from ${name}`) : null].filter(Boolean));
  box.className = `link is-${state.link}`;
  document.body.classList.toggle("is-away", isAway);
  const away = byId("away");
  away.hidden = !isAway;
  if (!isAway) return;
  const others = (state.cluster?.nodes ?? []).filter((node) => node.http && node.http !== location.host && node.address !== state.cluster.node?.address && node.is_alive !== false);
  patch(away, [
    el("b", {}, `The node has not responded for ${span(Math.max(1000, Date.now() - state.linkAt))}. `),
    state.receivedAt ? `The data shown is from ${clock(state.receivedAt)}. ` : "", "Reconnecting.",
    others.length ? [" Dashboards of other nodes: ", others.slice(0, 5).map((node) =>
      [el("a", { href: `${location.protocol}//${node.http}/${location.hash}` }, node.name), " "])] : null,
  ].flat(Infinity).filter((each) => each != null).map((each) => (typeof each === "string" ? document.createTextNode(each) : each)));
}

function render() {
  const { page, rest, query } = route();
  const title = [...rest].reverse().concat(pageOf(page).title, "Rota").join(" - ");
  if (document.title !== title) document.title = title;
  showNav(page);
  showLink();
  byId("token").classList.toggle("is-set", hasToken());
  byId("token").textContent = hasToken() ? "Token set" : "Token";
  patch(byId("main"), pageOf(page).show(rest, query).flat(Infinity).filter((each) => each != null && each !== false));
}

// --- colors ---

const THEMES = { system: "M12 3a9 9 0 1 0 0 18zM12 3a9 9 0 0 1 0 18", light: "M12 8a4 4 0 1 0 .1 0M12 2v3M12 19v3M2 12h3M19 12h3M5 5l2 2M17 17l2 2M5 19l2-2M17 7l2-2", dark: "M20 14A8.5 8.5 0 0 1 10 4a8.5 8.5 0 1 0 10 10z" };

function keep(name, value) {
  try { localStorage.setItem(name, value); } catch { /* Without storage the setting lasts until the page closes. */ }
}
function kept(name) {
  try { return localStorage.getItem(name); } catch { return null; }
}

function showTheme(theme) {
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  patch(byId("theme"), [svg("svg", { viewBox: "0 0 24 24", "aria-hidden": "true" }, svg("path", { d: THEMES[theme] }))]);
  byId("theme").setAttribute("aria-label", `Colors: ${theme === "system" ? "same as system" : theme}`);
  byId("theme").title = byId("theme").getAttribute("aria-label");
  window.dispatchEvent(new Event("themechange"));
}

function turnTheme() {
  const names = Object.keys(THEMES);
  const next = names[(names.indexOf(document.documentElement.dataset.theme ?? "system") + 1) % names.length];
  keep("theme", next);
  showTheme(next);
}

// --- keys ---

const KEYS = [
  ...Object.entries(pages).map(([name, { title }], i) => [String(i + 1), title, () => { location.hash = to(name); }]),
  ["/", "Search or filter on this page", () => document.querySelector("main input[type=search]")?.focus()],
  ["t", "Colors: system, light, dark", turnTheme],
  ["k", "Enter the token", askToken],
  ["?", "Show these shortcuts", showHelp],
];
const HINTS = [["Tab", "Next element"], ["← → ↑ ↓", "On the ring: previous or next shard"],
  ["Enter", "On the ring: show the shard"], ["Esc", "Close the dialog or leave the field"]];

function showHelp() {
  const isOff = kept("keys") === "off";
  patch(byId("help"), [el("form", { method: "dialog" },
    el("h2", { id: "help-title" }, "Keyboard shortcuts"),
    el("dl", { class: "keys" }, [...KEYS, ...HINTS].map(([key, text]) => [el("dt", {}, el("kbd", {}, key)), el("dd", {}, text)])),
    el("label", { class: "check" }, el("input", { type: "checkbox", checked: !isOff,
      onchange: (event) => keep("keys", event.currentTarget.checked ? "on" : "off") }), " Enable single-key shortcuts"),
    el("p", { class: "quiet" }, "Programs get the same data from /api/v1, and most of it from ",
      el("a", { href: "/metrics" }, "/metrics"), " for Prometheus."),
    el("menu", {}, el("button", { class: "main", value: "ok" }, "Close")))]);
  byId("help").showModal();
}

function onKey(event) {
  if (event.key === "Escape" && event.target.matches("main input, main textarea, main select")) event.target.blur();
  // A dialog that was just closed may keep the focus for one more frame.
  const isTyping = event.target.closest("input, textarea, select, dialog[open]") && !event.target.closest("dialog:not([open])");
  if (event.ctrlKey || event.metaKey || event.altKey || isTyping) return;
  const key = KEYS.find(([name]) => name === event.key);
  if (!key || (kept("keys") === "off" && event.key !== "?")) return;
  event.preventDefault();
  key[2]();
}

// --- start ---

let shownPage = null;
window.addEventListener("hashchange", () => {
  schedule();
  const { page, rest } = route();
  const name = [page, rest[0]].join("/");
  if (name === shownPage) return;
  shownPage = name;
  window.scrollTo(0, 0);
  byId("main").focus({ preventScroll: true });
});
byId("skip").addEventListener("click", (event) => { event.preventDefault(); byId("main").focus(); });
byId("ask-cancel").addEventListener("click", () => byId("ask").close("cancel"));
byId("token").addEventListener("click", askToken);
byId("theme").addEventListener("click", turnTheme);
byId("keys").addEventListener("click", showHelp);
document.addEventListener("keydown", onKey);
document.addEventListener("visibilitychange", schedule);
showTheme(kept("theme") === "light" ? "light" : kept("theme") === "dark" ? "dark" : "system");
onNews(render);
render();
listen();
setInterval(schedule, 1000); // ages grow without updates
