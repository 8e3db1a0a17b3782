// A job: its history as a timeline and as a list, its payload and result, and actions on it.
import { el, svg, link, badge, button, nothing, absent, ask, change, copies, number, span, moment, clock, shown, toast, fact } from "./core.js";

export const STATE_KINDS = { waiting: "soft", delayed: "soft", running: "info", done: "good", dead: "bad", cancelled: "warn" };
const CAUSES = { none: "", done: "", failed: "attempt failed", refused: "failed permanently", lost: "worker lost", "timed out": "attempt timed out", timed_out: "attempt timed out",
  "given back": "returned to the queue untried", given_back: "returned to the queue untried", deadline: "deadline passed", cancelled: "cancelled on request", retried: "retried on request",
  "handed over": "handed over to another node", handed_over: "handed over to another node" };

// Each event starts a state that lasts until the next event.
function segments(job, now) {
  const events = job.events.length ? job.events : [{ at_ms: job.enqueued_ms, state: job.state }];
  const list = events.map((event, i) => ({ state: event.state, from: event.at_ms, to: events[i + 1]?.at_ms ?? (job.ended_ms || now), worker: event.worker }));
  if (job.enqueued_ms < events[0].at_ms) list.unshift({ state: "waiting", from: job.enqueued_ms, to: events[0].at_ms });
  return list.filter((each) => each.to > each.from || each.state === "running");
}

function drawHistory(job) {
  const list = segments(job, Date.now());
  const from = job.enqueued_ms, to = Math.max(from + 1, ...list.map((each) => each.to));
  const least = 0.6; // so that a short state stays visible
  const widths = list.map((each) => Math.max(least, ((each.to - each.from) / (to - from)) * 100));
  const total = widths.reduce((sum, width) => sum + width, 0);
  let x = 0;
  return el("figure", { class: "plot", "data-key": "story" },
    el("figcaption", {}, el("span", { class: "title" }, "History"), el("span", { class: "legend" },
      [...new Set(list.map((each) => each.state))].map((state) => el("span", { class: `is-${state}` }, `${state} `,
        el("b", {}, span(list.filter((each) => each.state === state).reduce((sum, each) => sum + each.to - each.from, 0))))))),
    el("div", { class: "canvas is-thin", role: "img", "aria-label": list.map((each) => `${each.state} for ${span(each.to - each.from)}`).join(", then ") },
      svg("svg", { viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" }, list.map((each, i) => {
        const width = (widths[i] / total) * 100;
        x += width;
        return svg("rect", { class: `solid is-${each.state}`, x: x - width, width, y: each.state === "running" ? 0 : 2.5, height: each.state === "running" ? 10 : 5 },
          svg("title", {}, `${each.state} for ${span(each.to - each.from)}`));
      }))),
    el("div", { class: "axis" }, el("span", {}, moment(from)), el("span", {}, job.ended_ms ? clock(job.ended_ms) : "now")));
}

export function showJob(name, id) {
  const base = `/api/v1/queues/${encodeURIComponent(name)}/jobs/${encodeURIComponent(id)}`;
  const entry = ask(base, 1000);
  const crumbs = el("nav", { class: "crumbs", "aria-label": "Where" }, link("Queues", "queues"), " / ", link(name, "queues", name), " / ");
  if (!entry.value) return [crumbs, el("h2", { class: "mono" }, id),
    absent(entry, "the job", nothing("Job not found", "The job may have ended and expired, or its node may be down."))];
  const { job, explain } = entry.value;
  const canRetry = ["dead", "cancelled"].includes(job.state), canCancel = ["waiting", "delayed", "running"].includes(job.state);
  const result = shown(job.result), reason = shown(job.reason), payload = shown(job.spec.payload);
  const text = (title, body, none = "None.") => el("section", {}, el("div", { class: "head" }, el("h3", {}, title), body ? copies(body) : null),
    body ? el("pre", { class: "card", tabindex: "0", "aria-label": title }, body) : el("p", { class: "quiet" }, none));
  return [
    crumbs,
    el("div", { class: "head" }, el("h2", {}, el("span", { class: "mono" }, id), " ", badge(job.state, STATE_KINDS[job.state] ?? "soft")),
      canRetry ? button("Retry", async () => { if (await change(`${base}/retry`)) toast("The job is waiting again.", true); }, { class: "main" }) : null,
      canCancel ? button("Cancel", async () => { if (await change(`${base}/cancel`)) toast("The job is cancelled.", true); }) : null),
    el("p", { class: "lead" }, explain),
    el("div", { class: "facts" }, fact(`${number(job.n_attempts)} of ${number(job.spec.max_attempts || 5)}`, "attempts"),
      fact(span((job.ended_ms || Date.now()) - job.enqueued_ms), job.ended_ms ? "total time" : "age"),
      job.spec.priority ? fact(number(job.spec.priority), "priority") : null,
      job.spec.can?.length ? fact(job.spec.can.join(", "), "required capabilities") : null,
      job.worker ? fact(job.worker, "worker") : null),
    drawHistory(job),
    el("ol", { class: "story is-long" }, job.events.map((event, i) => el("li", { "data-key": String(i) },
      el("time", { datetime: new Date(event.at_ms).toISOString() }, moment(event.at_ms)), el("span", { class: "tiny" }, ` +${span(event.at_ms - job.enqueued_ms)}`), " ", badge(event.state, STATE_KINDS[event.state] ?? "soft"), " ",
      CAUSES[event.cause] ?? event.cause ?? "", event.worker ? [" on ", el("span", { class: "mono" }, event.worker)] : null,
      shown(event.reason) ? el("span", { class: "why" }, shown(event.reason)) : null))),
    el("div", { class: "pair" }, text("Payload", payload, job.ended_ms && !canRetry ? "Discarded when the job ended." : "Empty."), text(result || !reason ? "Result" : "Reason", result || reason)),
    shown(job.progress) ? text("Progress", shown(job.progress)) : null,
  ];
}
