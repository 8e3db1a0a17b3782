// The state of a chaos test: rota up --chaos kills and pauses nodes, and this shows whether anything was lost.
import { el, topic, nothing, fact, badge, number, plural, span, when } from "./core.js";

const OLD_MS = 5000; // the ledger is written once per second

// Violations, by subject.
const KINDS = [
  ["jobs lost or completed twice", ["job_lost", "job_dead", "job_twice", "job_wrong"]],
  ["keys wrong or unanswered", ["get_wrong", "get_unanswered"]],
  ["rows lost, duplicated or late", ["row_lost", "row_twice", "row_late", "two_readers", "partition_early", "partition_forgotten"]],
  ["shards with two owners or none", ["two_owners", "old_owner", "epoch_fell", "shard_unowned"]],
];

function facts(ledger) {
  const sum = (names) => names.reduce((n, name) => n + (ledger.faults?.[name] ?? 0), 0);
  const seen = [[`${number(ledger.done ?? 0)} of ${number(ledger.acknowledged ?? 0)}`, "acknowledged jobs done"], [number(ledger.gets ?? 0), "multi-gets"],
    [number(ledger.rows ?? 0), `rows read from ${plural(ledger.partitions ?? 0, "partition")}`], [number(ledger.moves ?? 0), "shard moves"]];
  return el("div", { class: "facts" }, KINDS.flatMap(([words, names], i) => [fact(...seen[i]), fact(number(sum(names)), words, sum(names) ? "bad" : "good")]),
    ledger.faults?.unchecked ? fact(number(ledger.faults.unchecked), "not checked", "bad") : null);
}

function struck(ledger) {
  const down = ledger.down ?? [];
  const total = `Kills and pauses so far: ${number(ledger.strikes ?? 0)}.`;
  if (down.length === 0) return el("p", {}, `All nodes are up. ${total}`);
  return el("p", {}, down.map((each, i) => [i ? ", " : "", el("b", {}, each.name), " ", el("span", { class: "mono" }, each.node), ` was ${each.how}`,
    each.since_ms ? [" at ", when(each.since_ms)] : null]), `. ${total}`);
}

export function showLedger() {
  const { value } = topic("ledger");
  const ledger = value?.ledger;
  if (!ledger && !value?.why_away) return null; // no check runs, as on every cluster in production
  if (!ledger) return el("section", { "data-key": "ledger" }, nothing("Cannot read the state of the chaos test", value.why_away));
  const n = Object.values(ledger.faults ?? {}).reduce((sum, each) => sum + each, 0);
  const age = Date.now() - (ledger.at_ms ?? 0);
  return el("section", { class: "card", "data-key": "ledger", "aria-label": "Chaos test" },
    el("div", { class: "head" }, el("h3", {}, ledger.phase === "checking" ? "Chaos test: final check" : "Chaos test"), n ? badge(plural(n, "violation"), "bad") : badge("nothing lost so far", "good")),
    age > OLD_MS ? el("p", { class: "note" }, `The chaos test has not reported for ${span(age)}.`) : null,
    struck(ledger), facts(ledger),
    n ? el("ul", { class: "steps" }, (ledger.told ?? []).map((each) => el("li", {}, badge(each.fault, "bad"), " ", each.text))) : null,
    ledger.since_ms ? el("p", { class: "quiet" }, "Running since ", when(ledger.since_ms), `, with ${plural(ledger.looks ?? 0, "ownership check")}.`) : null);
}
