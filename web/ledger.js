// What a program that checks this cluster has seen: rota up --chaos kills and stops nodes, and this shows that nothing is lost.
import { el, topic, nothing, fact, badge, number, plural, span, when } from "./core.js";

const OLD_MS = 5000; // it is written once per second

// What must not be, by what it is about.
const KINDS = [
  ["jobs lost or done twice", ["job_lost", "job_dead", "job_twice", "job_wrong"]],
  ["keys wrong or unanswered", ["get_wrong", "get_unanswered"]],
  ["rows lost, doubled or late", ["row_lost", "row_twice", "row_late", "two_readers", "partition_early", "partition_forgotten"]],
  ["shards with two owners or none", ["two_owners", "old_owner", "epoch_fell", "shard_unowned"]],
];

function facts(ledger) {
  const sum = (names) => names.reduce((n, name) => n + (ledger.faults?.[name] ?? 0), 0);
  const seen = [[`${number(ledger.done ?? 0)} of ${number(ledger.acknowledged ?? 0)}`, "acknowledged jobs done"], [number(ledger.gets ?? 0), "Gets"],
    [number(ledger.rows ?? 0), `rows read of ${plural(ledger.partitions ?? 0, "partition")}`], [number(ledger.moves ?? 0), "shards that moved"]];
  return el("div", { class: "facts" }, KINDS.flatMap(([words, names], i) => [fact(...seen[i]), fact(number(sum(names)), words, sum(names) ? "bad" : "good")]),
    ledger.faults?.unchecked ? fact(number(ledger.faults.unchecked), "not checked", "bad") : null);
}

function struck(ledger) {
  const down = ledger.down ?? [];
  const times = plural(ledger.strikes ?? 0, "time");
  if (down.length === 0) return el("p", {}, `All nodes are up. One was killed or stopped ${times} so far.`);
  return el("p", {}, down.map((each, i) => [i ? ", " : "", el("b", {}, each.name), " ", el("span", { class: "mono" }, each.node), ` is ${each.how}`,
    each.since_ms ? [" since ", when(each.since_ms)] : null]), `. One was killed or stopped ${times} so far.`);
}

export function showLedger() {
  const { value } = topic("ledger");
  const ledger = value?.ledger;
  if (!ledger && !value?.why_away) return null; // no check runs, as on every cluster in production
  if (!ledger) return el("section", { "data-key": "ledger" }, nothing("What checks this cluster can't be read", value.why_away));
  const n = Object.values(ledger.faults ?? {}).reduce((sum, each) => sum + each, 0);
  const age = Date.now() - (ledger.at_ms ?? 0);
  return el("section", { class: "card", "data-key": "ledger", "aria-label": "Chaos" },
    el("div", { class: "head" }, el("h3", {}, ledger.phase === "checking" ? "Chaos is over: all is seen to its end" : "Chaos"), n ? badge(plural(n, "fault"), "bad") : badge("nothing lost so far", "good")),
    age > OLD_MS ? el("p", { class: "note" }, `Nothing was heard of it for ${span(age)}.`) : null,
    struck(ledger), facts(ledger),
    n ? el("ul", { class: "steps" }, (ledger.told ?? []).map((each) => el("li", {}, badge(each.fault, "bad"), " ", each.text))) : null,
    ledger.since_ms ? el("p", { class: "quiet" }, "Checked since ", when(ledger.since_ms), `: ${plural(ledger.looks ?? 0, "look")} at what nodes hold.`) : null);
}
