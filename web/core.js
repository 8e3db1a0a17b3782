// What all pages share: elements, number formats, the state received from the node, queries and
// changes.

// --- elements ---

// All text goes in as text: nothing that comes from a job or a node is ever markup. Attributes that
// are functions are handlers, `style` is an object, and what is false or null is left out.
function fill(made, attributes, children) {
  for (const [key, value] of Object.entries(attributes))
    if (value === false || value == null) continue;
    else if (typeof value === "function") made[key] = value;
    else if (key === "style") for (const [name, each] of Object.entries(value)) made.style.setProperty(name, each);
    else made.setAttribute(key, value === true ? "" : value);
  made.append(...children.flat(Infinity).filter((child) => child != null && child !== false));
  return made;
}

export const el = (name, attributes = {}, ...children) => fill(document.createElement(name), attributes, children);
export const svg = (name, attributes = {}, ...children) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);

// A part that draws itself: `make(box)` runs once, when the part is on the page, and returns the
// function to call with updates. The part keeps its state while the page around it is rebuilt.
export function live(key, make, ...news) {
  const box = el("div", { "data-key": key, "data-live": "" });
  box.make = make;
  box.news = news;
  return box;
}

function begin(node) {
  const boxes = node.querySelectorAll ? [...node.querySelectorAll("[data-live]")] : [];
  if (node.dataset?.live !== undefined) boxes.push(node);
  for (const box of boxes) {
    box.update = box.make(box);
    box.update(...box.news);
  }
}

const HANDLERS = ["onclick", "oninput", "onchange", "onsubmit", "onkeydown", "onpointermove", "onpointerleave", "onpointerenter", "onfocus", "onblur"];
const keyOf = (node) => node.dataset?.key;

function adjust(old, wanted) {
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== wanted.data) old.data = wanted.data;
    return;
  }
  if (old.update) {
    old.update(...wanted.news);
    return;
  }
  for (const { name } of [...old.attributes])
    if (!wanted.hasAttribute(name) && !(name === "open" && old.nodeName === "DETAILS")) old.removeAttribute(name);
  for (const { name, value } of wanted.attributes)
    if (old.getAttribute(name) === value) continue;
    else if (name === "style") old.style.cssText = wanted.style.cssText; // as the content security policy requires
    else old.setAttribute(name, value);
  for (const name of HANDLERS) if (old[name] !== wanted[name]) old[name] = wanted[name];
  patch(old, [...wanted.childNodes]);
}

// Turn the children of `parent` into `wanted` by changing existing elements, so that focus, scroll
// position and typed text survive. A `data-key` identifies a child.
export function patch(parent, wanted) {
  const keys = new Set();
  for (const node of wanted)
    if (keys.has(keyOf(node))) delete node.dataset.key; // treat a duplicate as a child without a key
    else if (keyOf(node) !== undefined) keys.add(keyOf(node));
  const known = new Map();
  for (const child of [...parent.childNodes])
    if (keyOf(child) === undefined) continue;
    else if (keys.has(keyOf(child))) known.set(keyOf(child), child);
    else child.remove();
  let at = parent.firstChild;
  for (const node of wanted) {
    const key = keyOf(node);
    const old = key === undefined ? at : known.get(key);
    if (!old || old.nodeName !== node.nodeName || keyOf(old) !== key) {
      parent.insertBefore(node, at);
      begin(node);
      continue;
    }
    if (old === at) at = at.nextSibling;
    else parent.insertBefore(old, at);
    adjust(old, node);
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

// --- numbers and times ---

const FORMATS = [2, 1, 0].map((digits) => new Intl.NumberFormat("en", { maximumFractionDigits: digits }));
export const number = (n) => (n == null ? "" : FORMATS[n < 10 ? 0 : n < 100 ? 1 : 2].format(n));
export function short(n) {
  for (const [unit, size] of [["G", 1e9], ["M", 1e6], ["k", 1e3]])
    if (Math.abs(n) >= size) return `${(n / size).toFixed(n / size < 10 ? 1 : 0)}${unit}`;
  return n > 0 && n < 10 && !Number.isInteger(n) ? n.toFixed(1) : String(Math.round(n));
}
export function span(ms) {
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  const s = Math.round(ms / 1000);
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor(s / 60) % 60} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor(s / 3600) % 24} h`;
}
export const latency = (ms) => (ms == null ? "" : ms < 0.95 ? `${Math.round(ms * 1000)} µs` : ms < 10 ? `${ms.toFixed(1)} ms` : span(ms));
export const bytes = (n) => (n == null ? "" : n < 1 << 20 ? `${Math.round(n / 1024)} KiB` : `${Math.round(n / (1 << 20))} MiB`);
const two = (n) => String(n).padStart(2, "0");
export function clock(ms) {
  const at = new Date(ms);
  return `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}
export function moment(ms) {
  const at = new Date(ms);
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${clock(ms)}`;
}
export const when = (ms) => el("time", { datetime: new Date(ms).toISOString(), title: moment(ms) },
  Date.now() - ms < 86400000 ? clock(ms) : moment(ms));
export const plural = (n, word, words = `${word}s`) => `${number(n)} ${n === 1 ? word : words}`;
// Bytes arrive as a string if they are valid text, else as {base64}.
export const shown = (value) => (typeof value === "string" ? value : value?.base64 ? `base64: ${value.base64}` : "");

// --- state received from the node ---

const EVENTS_MAX = 5000;
const TOPICS = ["cluster", "spaces", "queues", "workers", "calls", "groups", "ledger"];
export const state = { cluster: null, spaces: null, queues: null, workers: null, calls: null, groups: null, ledger: null,
  events: [], link: "connecting", linkAt: Date.now(), receivedAt: 0 };
const listeners = new Set();
let isScheduled = false;

// Addresses identify nodes; people read names. Those of nodes that are gone stay known.
const names = new Map();
export const nameOf = (address) => names.get(address) ?? address;
export const byName = (a, b) => a.name.localeCompare(b.name, "en", { numeric: true });
function noteNames({ node, nodes = [] }) {
  for (const each of [...(node ? [node] : []), ...nodes]) {
    each.address ??= each.name; // of a node that has no names
    names.set(each.address, each.name);
  }
}

export const onNews = (listener) => listeners.add(listener);

// Render changes once, with the next frame.
export function schedule() {
  if (isScheduled) return;
  isScheduled = true;
  const show = () => {
    isScheduled = false;
    for (const listener of listeners) listener();
  };
  if (document.hidden) setTimeout(show, 1000);
  else requestAnimationFrame(show);
}

const watchers = { space: new Set(), queues: new Set() };
export const onTopic = (topic, watcher) => watchers[topic].add(watcher);

let source = null, wantedSpace = null;
const seen = new Set();

function setLink(link) {
  if (state.link !== link) state.linkAt = Date.now();
  state.link = link;
  schedule();
}

function addEvent(event) {
  const name = `${event.node ?? ""}/${event.number}/${event.at_ms}`;
  if (seen.has(name)) return;
  seen.add(name);
  event.name = name;
  const events = state.events;
  events.push(event);
  if (events.length > 1 && events[events.length - 2].at_ms > event.at_ms) events.sort((a, b) => a.at_ms - b.at_ms);
  if (events.length > EVENTS_MAX) seen.delete(events.shift().name);
  schedule();
}

export function listen() {
  source?.close();
  source = new EventSource(`/api/v1/stream${wantedSpace ? `?space=${encodeURIComponent(wantedSpace)}` : ""}`);
  const mine = source;
  mine.onopen = () => {
    setLink("live");
    forget();
  };
  mine.onerror = () => {
    setLink("away");
    // After some responses the browser gives up; reconnect ourselves.
    if (mine.readyState === EventSource.CLOSED) setTimeout(() => source === mine && listen(), 2000);
  };
  const hear = (topic, take) => mine.addEventListener(topic, (message) => {
    state.receivedAt = Date.now();
    take(JSON.parse(message.data));
    schedule();
  });
  for (const topic of TOPICS)
    hear(topic, (news) => {
      if (topic === "cluster") noteNames(news);
      state[topic] = news;
      watchers[topic]?.forEach((watcher) => watcher(news));
    });
  hear("space", (news) => watchers.space.forEach((watcher) => watcher(news)));
  hear("event", addEvent);
}

// The stream carries the moves of one space only if the request names it.
export function listenTo(space) {
  if (space === wantedSpace) return;
  wantedSpace = space;
  listen();
}

// --- asking ---

const asked = new Map(); // path -> { value, error, status, at, isUnderWay }

async function fetchJson(path, options) {
  const answer = await fetch(path, options);
  const result = await answer.json().catch(() => ({ error: `the node answered ${answer.status} ${answer.statusText}` }));
  if (!answer.ok) throw Object.assign(new Error(result.error ?? `the node answered ${answer.status}`), { status: answer.status });
  return result;
}
export const look = (path) => fetchJson(path);

async function renew(path, entry) {
  entry.isUnderWay = true;
  try {
    entry.value = await look(path);
    entry.error = entry.status = null;
  } catch (error) {
    entry.error = error.message;
    entry.status = error.status ?? 0;
  }
  entry.isUnderWay = false;
  entry.at = Date.now();
  schedule();
}

// A document that is not on the stream: the last response, fetched again when it is older than
// `every` ms while a page shows it.
export function ask(path, every = 2000) {
  let entry = asked.get(path);
  if (!entry) asked.set(path, (entry = { value: null, error: null, status: null, at: 0, isUnderWay: false }));
  const pause = entry.status === 404 ? Math.max(every, 15000) : every;
  if (!entry.isUnderWay && Date.now() - entry.at >= pause) renew(path, entry);
  if (asked.size > 200) for (const [key, each] of asked) if (Date.now() - each.at > 60000 && !each.isUnderWay) asked.delete(key);
  return entry;
}
export const forget = (prefix = "") => asked.forEach((entry, path) => { if (path.startsWith(prefix)) entry.at = 0; });

// A document from the stream, or fetched if the stream has not carried it yet.
export function topic(name) {
  return state[name] ? { value: state[name], error: null, status: null } : ask(`/api/v1/${name}`, 3000);
}

// --- changing ---

export function toast(text, isGood = false) {
  const box = document.getElementById("toast");
  box.textContent = text;
  box.classList.toggle("is-good", isGood);
  box.hidden = false;
  clearTimeout(toast.timer);
  toast.timer = setTimeout(() => { box.hidden = true; }, 8000);
}

export const hasToken = () => Boolean(sessionStorage.getItem("token"));

export function askToken() {
  const dialog = document.getElementById("ask");
  const field = document.getElementById("secret");
  field.value = sessionStorage.getItem("token") ?? "";
  dialog.returnValue = "cancel";
  dialog.showModal();
  return new Promise((done) => dialog.addEventListener("close", () => {
    const isGiven = dialog.returnValue === "ok" && field.value.trim() !== "";
    if (dialog.returnValue === "ok") sessionStorage.setItem("token", field.value.trim());
    if (!isGiven) sessionStorage.removeItem("token");
    field.value = "";
    schedule();
    done(isGiven);
  }, { once: true }));
}

// The node's response to a preview. Only a large one needs the token.
export const weigh = (path, body) => fetchJson(path, {
  method: "POST",
  headers: { "Content-Type": "application/json", ...(hasToken() ? { Authorization: `Bearer ${sessionStorage.getItem("token")}` } : {}) },
  body: JSON.stringify(body),
});

// The node's response to a change; null if it failed, after a message says why.
export async function change(path, body, isQuiet = false) {
  if (!hasToken() && !(await askToken())) return null;
  try {
    const result = await fetchJson(path, {
      method: "POST",
      headers: { Authorization: `Bearer ${sessionStorage.getItem("token")}`, "Content-Type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    forget();
    return result;
  } catch (error) {
    if (error.status === 401) {
      sessionStorage.removeItem("token");
      toast(`No change was made: ${error.message}.`);
    } else if (!isQuiet) toast(error.status ? `No change was made: ${error.message}` : "The node is unreachable. The change may or may not have been made; check before you repeat it.");
    if (isQuiet) throw error;
    return null;
  } finally {
    schedule();
  }
}

// Shows what a change would do and asks for confirmation.
export function confirm(title, sentences, verb, isGrave = false) {
  const dialog = document.getElementById("confirm");
  patch(dialog, [el("form", { method: "dialog" },
    el("h2", { id: "confirm-title" }, title),
    el("ul", { class: "steps" }, sentences.map((sentence) => el("li", {}, sentence))),
    el("menu", {}, el("button", { value: "cancel" }, "Cancel"),
      el("button", { value: "ok", class: isGrave ? "main grave" : "main" }, verb)))]);
  dialog.returnValue = "cancel";
  dialog.showModal();
  return new Promise((done) => dialog.addEventListener("close", () => done(dialog.returnValue === "ok"), { once: true }));
}

// --- parts of pages ---

export const link = (text, ...path) => el("a", { href: to(...path) }, text);
export const to = (...path) => `#/${path.map(encodeURIComponent).join("/")}`;

export function table(caption, heads, rows, empty) {
  if (rows.length === 0) return empty;
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption }, el("table", {},
    el("caption", { class: "hidden" }, caption),
    el("thead", {}, el("tr", {}, heads.map((head) => el("th", { scope: "col", class: head.n ? "n" : head.class, title: head.title }, head.isHidden ? el("span", { class: "hidden" }, head.text) : head.text)))),
    el("tbody", {}, rows.map(({ key, cells, ...rest }) => el("tr", { "data-key": key, ...rest },
      cells.map((cell, i) => el("td", { class: heads[i].n ? "n" : heads[i].class, "data-head": heads[i].isHidden ? "" : heads[i].text }, cell ?? "")))))));
}

export const card = (title, attributes, ...children) => el("section", { class: "card", ...attributes },
  title && el("h3", {}, title), ...children);
export const fact = (value, text, kind, title) => el("div", { class: "fact", title }, el("b", { class: kind }, value), el("span", {}, text));
export const badge = (text, kind, title) => el("span", { class: `badge ${kind}`, title }, text);

export const button = (text, onclick, attributes = {}) => el("button", { type: "button", onclick, ...attributes }, text);

const ART = "M12 60a34 34 0 1 1 68 0M22 60a24 24 0 1 1 48 0M46 60v-9";
// An empty page or part says why it is empty and what to do about it.
export function nothing(title, text, command) {
  return el("div", { class: "nothing" },
    svg("svg", { viewBox: "0 0 92 66", "aria-hidden": "true" }, svg("path", { d: ART })),
    el("h3", {}, title), el("p", {}, text), command && el("pre", {}, el("code", {}, command)));
}

export function loading(what) {
  return el("div", { class: "nothing is-loading", role: "status" },
    svg("svg", { viewBox: "0 0 92 66", "aria-hidden": "true" }, svg("path", { d: ART })),
    el("p", {}, state.link === "away" ? `The node is unreachable. This page shows ${what} when it responds again.` : `Waiting for ${what}.`));
}

// The placeholder for a document that is loading, missing on this node, or missing everywhere.
export function absent(entry, what, missing) {
  if (entry.value) return null;
  if (entry.status === 404 || entry.status === 405 || entry.status === 501) return missing;
  if (entry.error && entry.status) return nothing(`The node cannot show ${what}`, entry.error);
  return loading(what);
}

export const copies = (text) => button("Copy", async (event) => {
  const it = event.currentTarget;
  try { await navigator.clipboard.writeText(text); it.textContent = "Copied"; } catch { it.textContent = "Copy failed"; }
  setTimeout(() => { it.textContent = "Copy"; }, 1500);
}, { class: "small" });
