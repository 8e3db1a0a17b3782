// Plots: lines over time, bars, histograms. Shapes stretch to the available width; text stays
// outside them, unscaled.
import { el, svg, schedule, short, clock } from "./core.js";

let pointed = null; // { key, share } of the plot under the pointer

const points = (values, top, from, to) => values.map((value, i) =>
  `${(from + (i / Math.max(1, values.length - 1)) * (to - from)).toFixed(2)},${(100 - (value / top) * 100).toFixed(2)}`);

// A round number that is not below `value`.
export function roof(value) {
  if (!(value > 0)) return 1;
  const size = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 3, 5, 10].map((n) => n * size).find((n) => n >= value - 1e-9);
}

// Values over time, newest last, one per `step` ms: `series` of { name, kind, values }, as lines or
// as stacked areas.
export function timeline(key, title, series, { step = 1000, total = 300, isStacked = false, least = 1, format = short, unit = "" } = {}) {
  const n = Math.max(...series.map((each) => each.values.length), 0);
  total = Math.min(total, Math.max(60, n)); // at least a minute
  const tail = series.map((each) => ({ ...each, values: each.values.slice(-total) }));
  const count = Math.min(n, total);
  const sums = isStacked ? tail.map((_, i) => tail[0].values.map((_, j) =>
    tail.slice(0, i + 1).reduce((sum, each) => sum + (each.values[j] ?? 0), 0))) : tail.map((each) => each.values);
  const top = roof(Math.max(least, ...sums.flat().map((value) => value * 1.05)));
  const from = 100 - (Math.max(0, count - 1) / (total - 1)) * 100;
  const shapes = sums.map((values, i) => {
    const line = points(values, top, from, 100);
    const floor = isStacked ? (i ? points(sums[i - 1], top, from, 100).reverse() : ["100,100", `${from.toFixed(2)},100`]) : null;
    return isStacked
      ? svg("polygon", { class: `area ${tail[i].kind}`, points: [...line, ...floor].join(" ") })
      : svg("polyline", { class: `line ${tail[i].kind}`, points: line.join(" ") });
  });
  const at = pointed?.key === key && count > 1 ? Math.round(((pointed.share * 100 - from) / (100 - from)) * (count - 1)) : null;
  const isAt = at != null && at >= 0 && at < count;
  const value = (each) => each.values[isAt ? at : count - 1];
  const now = tail.map((each) => `${each.name} ${count ? format(value(each)) : "unknown"}${unit}`).join(", ");
  return el("figure", { class: "plot", "data-key": key },
    el("figcaption", {}, el("span", { class: "title" }, title),
      el("span", { class: "legend" }, tail.map((each) => el("span", { class: each.kind }, `${each.name} `,
        el("b", {}, count ? `${format(value(each))}${unit}` : "-"))))),
    el("div", { class: "canvas", role: "img", "aria-label": `${title}: ${now}`,
      onpointermove: (event) => {
        const box = event.currentTarget.getBoundingClientRect();
        pointed = { key, share: (event.clientX - box.left) / box.width };
        schedule();
      },
      onpointerleave: () => { pointed = null; schedule(); } },
      svg("svg", { viewBox: "0 0 100 100", preserveAspectRatio: "none", "aria-hidden": "true" },
        [25, 50, 75].map((y) => svg("line", { class: "grid", x1: 0, x2: 100, y1: y, y2: y })), shapes,
        isAt ? svg("line", { class: "cross", x1: from + (at / (count - 1)) * (100 - from), x2: from + (at / (count - 1)) * (100 - from), y1: 0, y2: 100 }) : null),
      el("span", { class: "top" }, `${format(top)}${unit}`), el("span", { class: "bottom" }, "0"),
      count < 2 ? el("span", { class: "hint" }, "Recording starts when you open this page.") : null),
    el("div", { class: "axis" }, el("span", {}, `${total * step < 120000 ? `${Math.round((total * step) / 1000)} s` : `${Math.round((total * step) / 60000)} min`} ago`),
      el("span", {}, isAt ? clock(Date.now() - (count - 1 - at) * step) : "now")));
}

// A sparkline for a table cell.
export function spark(values, kind, label, most = 120) {
  const total = Math.min(most, Math.max(20, values.length));
  const tail = values.slice(-total);
  const top = Math.max(1, ...tail);
  const from = 100 - (Math.max(0, tail.length - 1) / (total - 1)) * 100;
  const line = points(tail, top, from, 100);
  return el("span", { class: "spark", role: "img", "aria-label": label },
    svg("svg", { viewBox: "0 -6 100 112", preserveAspectRatio: "none", "aria-hidden": "true" },
      tail.length > 1 ? [svg("polygon", { class: `area ${kind}`, points: [`${from.toFixed(2)},100`, ...line, "100,100"].join(" ") }),
        svg("polyline", { class: `line ${kind}`, points: line.join(" ") })]
        : svg("line", { class: "grid", x1: 0, x2: 100, y1: 100, y2: 100 })));
}

// A latency histogram: `buckets` of [upper_ms, count] on a scale of `edges`, so that several in a
// column can be compared.
export function histogram(buckets, edges, marks, label) {
  const counts = new Map(buckets);
  const top = Math.max(1, ...counts.values());
  const width = 100 / Math.max(1, edges.length);
  const x = (ms) => {
    const i = edges.findIndex((edge) => edge >= ms);
    return i < 0 ? 100 : (i + 0.5) * width;
  };
  return el("div", { class: "histogram", role: "img", "aria-label": label },
    svg("svg", { viewBox: "0 0 100 100", preserveAspectRatio: "none", "aria-hidden": "true" },
      edges.map((edge, i) => {
        const height = ((counts.get(edge) ?? 0) / top) * 100;
        return height ? svg("rect", { x: i * width + width * 0.08, width: width * 0.84, y: 100 - Math.max(2, height), height: Math.max(2, height) }) : null;
      }),
      marks.map(([ms, kind]) => svg("line", { class: `mark ${kind}`, x1: x(ms), x2: x(ms), y1: 0, y2: 100 }))));
}

// A stacked bar: `parts` of { value, kind }, drawn one after the other, scaled to `top`.
export function bar(parts, top, label) {
  let x = 0;
  return el("span", { class: "bar", role: "img", "aria-label": label },
    svg("svg", { viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" },
      parts.map(({ value, kind }) => {
        const width = top > 0 ? (value / top) * 100 : 0;
        x += width;
        return svg("rect", { class: kind, x: x - width, width, y: 0, height: 10 });
      })));
}
