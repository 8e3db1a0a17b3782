// The ring: nodes by zone around it, the points of the ring, and inside them the shards of a space,
// each a cell in its owner's color. Moves fly from node to node.
//
// The shards are pixels of an image whose map from pixel to shard is computed once per size, so a
// hundred thousand cost as little as ten.
import { state, el, byName, number, short } from "./core.js";

const PALETTE = ["#4f7fdc", "#dd7f3b", "#2f9f86", "#b264c6", "#c39c22", "#d4597a", "#5b9f45", "#2f9dc0", "#8a70dd", "#a17a58"];
const FLASH = 1600; // ms that a shard glows after it moved
const GLOW = [255, 214, 77];
const FLIGHT = 1500;
const FLIGHTS_MAX = 160;
const TURN = 2 * Math.PI;
const still = window.matchMedia("(prefers-reduced-motion: reduce)");

// --- colors of nodes ---

const numbers = new Map(); // address -> from 1, by name, and in the order in which they were seen
export function numberOf(address) {
  const note = (each) => numbers.has(each) || numbers.set(each, numbers.size + 1);
  if (!numbers.has(address)) [...(state.cluster?.nodes ?? [])].sort(byName).forEach((node) => note(node.address));
  note(address);
  return numbers.get(address);
}

function hsl(h, s, l) {
  const f = (n) => {
    const k = (n + h / 30) % 12;
    return Math.round(255 * (l - s * Math.min(l, 1 - l) * Math.max(-1, Math.min(k - 3, 9 - k, 1))));
  };
  return [f(0), f(8), f(4)];
}

function rgbOf(address) {
  const i = numberOf(address) - 1;
  if (i < PALETTE.length) return [1, 3, 5].map((at) => parseInt(PALETTE[i].slice(at, at + 2), 16));
  return hsl((i * 137.508) % 360, 0.5, [0.5, 0.62, 0.42][i % 3]);
}
const css = ([r, g, b]) => `rgb(${r} ${g} ${b})`;
const linear = (c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4);
const luminance = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
const inkOn = (rgb) => (luminance(rgb) > 0.179 ? "#000" : "#fff");

// The number of a node in its color, by which it is known on the ring.
export function chip(address, isDead = false) {
  const rgb = rgbOf(address);
  return el("span", { class: isDead ? "chip is-dead" : "chip", "aria-hidden": "true",
    style: isDead ? {} : { background: css(rgb), color: inkOn(rgb) } }, isDead ? "×" : String(numberOf(address)));
}

// --- the picture ---

const pack = ([r, g, b], alpha = 255) => ((alpha << 24) | (b << 16) | (g << 8) | r) >>> 0; // as little-endian pixels
const mix = (a, b, share) => a.map((each, i) => Math.round(each + (b[i] - each) * share));

function readTheme() {
  const style = getComputedStyle(document.documentElement);
  const probe = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const color = (name) => {
    probe.fillStyle = style.getPropertyValue(name).trim();
    probe.fillRect(0, 0, 1, 1);
    return [...probe.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  return { ink: color("--ink"), soft: color("--soft"), line: color("--line"), card: color("--card"), bad: color("--bad"), warn: color("--warn"), accent: color("--accent") };
}

// How many shards lie behind each other, so that their cells are about as long as wide.
// Of several that would do the one that leaves the smallest gap at the end.
function layout(n, inner, outer) {
  const thick = outer - inner;
  const best = thick / Math.sqrt((Math.PI * (outer + inner) * thick) / Math.max(1, n));
  let found = { rows: 1, columns: Math.max(1, n), loss: Infinity };
  for (let rows = Math.max(1, Math.floor(best * 0.7)); rows <= Math.max(1, Math.ceil(best * 1.4)); rows++) {
    const columns = Math.max(1, Math.ceil(n / rows));
    const loss = (rows * columns - n) / columns + Math.abs(Math.log(rows / best)) * 0.2;
    if (loss < found.loss) found = { rows, columns, loss };
  }
  return found;
}

// The pixels of each shard: those of shard i are `pixels` from `first[i]` to `first[i + 1]`.
function mapCells(size, n, inner, outer) {
  const { rows, columns } = layout(n, inner, outer);
  const middle = size / 2;
  const thick = (outer - inner) / rows;
  const gap = Math.min(thick, (TURN * inner) / columns) > 7 ? 1.2 : 0; // between cells that are large enough
  const shardAt = (x, y) => {
    const dx = x + 0.5 - middle, dy = y + 0.5 - middle;
    const radius = Math.sqrt(dx * dx + dy * dy);
    if (radius < inner || radius >= outer) return -1;
    const row = (radius - inner) / thick;
    const column = (((Math.atan2(dx, -dy) + TURN) % TURN) / TURN) * columns;
    if (gap && ((row % 1) * thick < gap || ((column % 1) * TURN * radius) / columns < gap)) return -1;
    const shard = Math.floor(column) * rows + (rows - 1 - Math.floor(row));
    return shard < n ? shard : -1;
  };
  const of = new Int32Array(size * size);
  const first = new Uint32Array(n + 2);
  for (let y = 0, i = 0; y < size; y++)
    for (let x = 0; x < size; x++, i++) {
      of[i] = shardAt(x, y);
      if (of[i] >= 0) first[of[i] + 2]++;
    }
  for (let shard = 0; shard < n; shard++) first[shard + 2] += first[shard + 1];
  const pixels = new Uint32Array(first[n + 1]);
  for (let i = 0; i < of.length; i++) if (of[i] >= 0) pixels[first[of[i] + 1]++] = i;
  return { first, pixels };
}

// The returned function draws a model: nodes [{ name, zone, weight, isDead }], points [[position, index of node]],
// space (see cluster.js) or null, lit (name of a node or null), shard (selected or -1), and
// onPoint(shard), onPick(shard).
export function makeRing(box) {
  const canvas = el("canvas", { tabindex: "0", role: "slider", "aria-label": "Shards on the ring", "aria-orientation": "horizontal" });
  const back = document.createElement("canvas"); // nodes, zones and points
  const band = document.createElement("canvas"); // shards
  const context = canvas.getContext("2d");
  let model = null, theme = readTheme(), size = 0, scale = 1, map = null, mapFor = "", backFor = "";
  let image = null, out = null, tones = null, flights = [], isDrawing = false, seenMoves = 0, bandFor = "";
  box.classList.add("ring");
  box.prepend(canvas);

  const radii = () => ({ zone: size * 0.465, node: size * 0.43, outer: size * 0.392, points: size * 0.368, shards: size * 0.358, inner: size * 0.212 });
  const angles = new Map(); // name of a node -> angle of its badge

  function placeNodes() {
    angles.clear();
    const zones = [...new Set(model.nodes.map((node) => node.zone ?? ""))].sort();
    const gap = zones.length > 1 ? 0.12 : 0;
    const each = (TURN - gap * zones.length) / Math.max(1, model.nodes.length);
    let at = gap / 2;
    const arcs = [];
    for (const zone of zones) {
      const inside = model.nodes.filter((node) => (node.zone ?? "") === zone).sort((a, b) => numberOf(a.address) - numberOf(b.address));
      const begin = at;
      for (const node of inside) {
        angles.set(node.address, at + each / 2);
        at += each;
      }
      arcs.push({ zone, begin, end: at });
      at += gap;
    }
    return arcs;
  }

  const spot = (angle, radius) => [size / 2 + radius * Math.sin(angle), size / 2 - radius * Math.cos(angle)];
  function sector(on, from, to, inner, outer) {
    on.beginPath();
    on.arc(size / 2, size / 2, outer, from - Math.PI / 2, to - Math.PI / 2);
    on.arc(size / 2, size / 2, inner, to - Math.PI / 2, from - Math.PI / 2, true);
    on.closePath();
  }

  // The range of the ring that each node has: from the previous point to its own. Without points, by weight.
  function stretches() {
    const points = model.points ?? [];
    if (points.length)
      return points.map(([position, index], i) => ({ name: model.nodes[index]?.address,
        from: ((i ? points[i - 1][0] : points[points.length - 1][0] - 2 ** 32) / 2 ** 32) * TURN, to: (position / 2 ** 32) * TURN }));
    const placed = model.nodes.filter((node) => node.isPlaced);
    const total = placed.reduce((sum, node) => sum + (node.weight || 1), 0);
    let at = 0;
    return placed.map((node) => {
      const from = at;
      at += ((node.weight || 1) / total) * TURN;
      return { name: node.address, from, to: at };
    });
  }

  function drawBack() {
    const on = back.getContext("2d");
    const r = radii();
    back.width = back.height = Math.round(size * scale);
    on.setTransform(scale, 0, 0, scale, 0, 0);
    on.clearRect(0, 0, size, size);
    on.textAlign = "center";
    on.textBaseline = "middle";
    for (const { zone, begin, end } of placeNodes()) {
      sector(on, begin, end, r.zone, r.zone + 3);
      on.fillStyle = css(theme.line);
      on.fill();
      if (!zone) continue;
      const [x, y] = spot((begin + end) / 2, r.zone + 3 + size * 0.018);
      on.fillStyle = css(theme.soft);
      on.font = `600 ${Math.max(10, size * 0.021)}px system-ui, sans-serif`;
      on.fillText(zone.length > 12 ? `${zone.slice(0, 11)}…` : zone, x, y);
    }
    for (const { name, from, to } of stretches()) {
      sector(on, from, to, model.space ? r.points : r.inner, r.outer);
      on.fillStyle = name ? css(rgbOf(name)) : css(theme.line);
      on.globalAlpha = model.lit && model.lit !== name ? 0.12 : model.space ? 0.75 : 1;
      on.fill();
    }
    on.globalAlpha = 1;
    const badge = Math.min(size * 0.026, (r.node * TURN) / Math.max(1, model.nodes.length) / 2.3);
    for (const node of model.nodes) drawBadge(on, node, badge, r.node);
  }

  function drawBadge(on, node, badge, radius) {
    const [x, y] = spot(angles.get(node.address), radius);
    const rgb = rgbOf(node.address);
    on.globalAlpha = model.lit && model.lit !== node.address ? 0.3 : 1;
    on.beginPath();
    on.arc(x, y, badge, 0, TURN);
    on.fillStyle = node.isDead ? css(theme.card) : css(rgb);
    on.fill();
    if (node.isDead || node.isDraining) {
      on.lineWidth = 2;
      on.strokeStyle = node.isDead ? css(theme.bad) : css(theme.warn);
      on.setLineDash(node.isDead ? [] : [3, 3]);
      on.stroke();
      on.setLineDash([]);
    }
    if (badge > 6) {
      on.fillStyle = node.isDead ? css(theme.bad) : inkOn(rgb);
      on.font = `700 ${badge * 1.05}px system-ui, sans-serif`;
      on.fillText(node.isDead ? "×" : String(numberOf(node.address)), x, y + badge * 0.06);
    }
    on.globalAlpha = 1;
  }

  // By owner, "no owner" first, and by state: owned, moving, unowned.
  function makeTones() {
    const { nodes } = model.space;
    return [mix(theme.bad, theme.card, 0.15), ...nodes.map(rgbOf)].map((rgb, i) => [0, 0.5, 0].map((share) =>
      mix(mix(rgb, theme.card, share), theme.card, i > 0 && model.lit && model.lit !== nodes[i - 1] ? 0.86 : 0)));
  }

  // Redraw all shards, or only those that glow. Returns true while some still glow.
  function drawBand(now, isWhole) {
    const { n, owner, state, movedAt, recent } = model.space;
    const r = radii();
    const side = n > 20000 ? canvas.width : Math.round(size * Math.min(2, Math.max(scale, 1.5)));
    if (mapFor !== `${side}/${n}`) {
      const zoom = side / size;
      map = mapCells(side, n, r.inner * zoom, r.shards * zoom);
      band.width = band.height = side;
      image = band.getContext("2d").createImageData(side, side);
      out = new Uint32Array(image.data.buffer);
      mapFor = `${side}/${n}`;
      isWhole = true;
    }
    const { first, pixels } = map;
    const fill = (shard, color) => { for (let i = first[shard]; i < first[shard + 1]; i++) out[pixels[i]] = color; };
    if (isWhole) {
      tones = makeTones();
      const packed = tones.map((each) => each.map((rgb) => pack(rgb)));
      for (let shard = 0; shard < n; shard++) fill(shard, packed[owner[shard] + 1][state[shard]]);
    }
    for (const shard of recent) {
      const share = still.matches ? 1 : Math.min(1, (now - movedAt[shard]) / FLASH);
      fill(shard, pack(mix(GLOW, tones[owner[shard] + 1][state[shard]], share)));
    }
    model.space.recent = recent.filter((shard) => now - movedAt[shard] < FLASH && !still.matches);
    band.getContext("2d").putImageData(image, 0, 0);
    return model.space.recent.length > 0;
  }

  function drawFlights(now) {
    const r = radii();
    flights = flights.filter((flight) => now - flight.at < FLIGHT);
    for (const { from, to, n, at } of flights) {
      const a = angles.get(from), b = angles.get(to);
      if (a === undefined || b === undefined) continue;
      const share = (now - at) / FLIGHT;
      const ends = [spot(a, r.node), spot(b, r.node)];
      context.strokeStyle = css(rgbOf(to));
      context.lineCap = "round";
      context.lineWidth = Math.min(9, 2 + Math.log2(1 + n));
      for (let i = 0; i < 14; i++) { // a fading tail
        const end = share * 1.25 - i * 0.018, begin = end - 0.02;
        if (end < 0 || begin > 1) continue;
        context.globalAlpha = (1 - i / 14) * 0.9;
        context.beginPath();
        context.moveTo(...curve(ends, Math.max(0, begin)));
        context.lineTo(...curve(ends, Math.min(1, end)));
        context.stroke();
      }
    }
    context.globalAlpha = 1;
    return flights.length > 0;
  }
  const curve = ([[x0, y0], [x1, y1]], t) => [(1 - t) ** 2 * x0 + 2 * (1 - t) * t * (size / 2) + t * t * x1,
    (1 - t) ** 2 * y0 + 2 * (1 - t) * t * (size / 2) + t * t * y1];

  function drawMark(shard) {
    const r = radii();
    const { rows, columns } = layout(model.space.n, r.inner, r.shards);
    const column = Math.floor(shard / rows), row = rows - 1 - (shard % rows);
    const thick = (r.shards - r.inner) / rows;
    const angle = (TURN * (column + 0.5)) / columns;
    const half = Math.max(TURN / columns / 2, 4 / r.shards), middle = r.inner + (row + 0.5) * thick, depth = Math.max(thick / 2, 4);
    sector(context, angle - half, angle + half, middle - depth, middle + depth);
    context.lineWidth = 2.5;
    context.strokeStyle = css(theme.ink);
    context.stroke();
  }

  function draw(now) {
    isDrawing = false;
    if (!model || !canvas.isConnected || size < 10) return;
    const backKey = JSON.stringify([size, scale, model.lit, Boolean(model.space), model.pointsKey, model.nodes, theme]);
    if (backKey !== backFor) drawBack();
    backFor = backKey;
    let isMoving = false;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, canvas.width, canvas.height);
    context.drawImage(back, 0, 0);
    if (model.space) {
      const key = `${model.space.name}/${model.space.changes}/${model.lit}/${theme.ink}/${size}`;
      if (key !== bandFor || model.space.recent.length) isMoving = drawBand(now, key !== bandFor);
      bandFor = key;
      context.drawImage(band, 0, 0, canvas.width, canvas.height);
    }
    context.setTransform(scale, 0, 0, scale, 0, 0);
    isMoving = drawFlights(now) || isMoving;
    if (model.space && model.shard >= 0 && model.shard < model.space.n) drawMark(model.shard);
    if (isMoving) request();
  }

  function request() {
    if (isDrawing) return;
    isDrawing = true;
    requestAnimationFrame(() => draw(performance.now()));
  }

  function launch() {
    const moves = model.space?.moves ?? [];
    for (const move of moves)
      if (move.number > seenMoves) {
        seenMoves = move.number;
        if (!still.matches && flights.length < FLIGHTS_MAX) flights.push({ ...move, at: performance.now() });
      }
  }

  function resize() {
    size = Math.floor(Math.min(box.clientWidth, 580));
    scale = Math.min(2, window.devicePixelRatio || 1);
    canvas.width = canvas.height = Math.round(size * scale);
    canvas.style.setProperty("width", `${size}px`);
    canvas.style.setProperty("height", `${size}px`);
    request();
  }

  function shardAt(event) {
    if (!model?.space) return -1;
    const at = canvas.getBoundingClientRect();
    const dx = event.clientX - at.left - at.width / 2, dy = event.clientY - at.top - at.height / 2;
    const radius = Math.hypot(dx, dy);
    const r = radii();
    if (radius < r.inner || radius >= r.shards) return -1;
    const { rows, columns } = layout(model.space.n, r.inner, r.shards);
    const row = Math.floor(((radius - r.inner) / (r.shards - r.inner)) * rows);
    const column = Math.floor((((Math.atan2(dx, -dy) + TURN) % TURN) / TURN) * columns);
    const shard = column * rows + (rows - 1 - row);
    return shard < model.space.n ? shard : -1;
  }

  canvas.onpointermove = (event) => model?.onPoint(shardAt(event));
  canvas.onpointerleave = () => model?.onPoint(-1);
  canvas.onclick = (event) => {
    const shard = shardAt(event);
    if (shard >= 0) model.onPick(shard);
  };
  canvas.onkeydown = (event) => {
    if (!model?.space) return;
    const { rows } = layout(model.space.n, radii().inner, radii().shards);
    const step = { ArrowRight: rows, ArrowLeft: -rows, ArrowDown: 1, ArrowUp: -1, PageDown: rows * 10, PageUp: -rows * 10 }[event.key];
    const last = model.space.n - 1;
    const now = Math.max(0, model.shard);
    const next = event.key === "Home" ? 0 : event.key === "End" ? last : step ? Math.min(last, Math.max(0, model.shard < 0 ? 0 : now + step)) : null;
    if (event.key === "Enter" && model.shard >= 0) model.onPick(model.shard);
    if (next == null) return;
    event.preventDefault();
    model.onPoint(next, true);
  };
  new ResizeObserver(resize).observe(box);
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const onTheme = () => {
    if (!canvas.isConnected) {
      window.removeEventListener("themechange", onTheme);
      system.removeEventListener("change", onTheme);
      return;
    }
    theme = readTheme();
    backFor = bandFor = "";
    request();
  };
  window.addEventListener("themechange", onTheme);
  system.addEventListener("change", onTheme);

  return (news) => {
    model = news;
    const { space, shard } = model;
    canvas.setAttribute("aria-valuemin", "0");
    canvas.setAttribute("aria-valuemax", String(Math.max(0, (space?.n ?? 1) - 1)));
    canvas.setAttribute("aria-valuenow", String(Math.max(0, shard)));
    canvas.setAttribute("aria-valuetext", space ? shard >= 0 ? `shard ${shard} of ${space.name}: ${news.text}` : `${number(space.n)} shards of ${space.name}` : `${short(model.nodes.length)} nodes`);
    launch();
    request();
  };
}
