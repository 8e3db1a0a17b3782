// The dashboard of live nodes: test_live.js SCREENSHOTS ROTA ROTAD [NAME...]. Prints TAP.
//
// Three nodes of our own, with a space, live through the tests one after the other; in the end a
// cluster with its sample load is looked at.
"use strict";
const { execFile, spawn } = require("node:child_process");
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const readline = require("node:readline");
const { assert, test, runAll, until, go, shoot, TIMEOUT } = require("./browser.js");

const [screenshots, rota, rotad, ...names] = process.argv.slice(2).map((word, i) => (i < 3 ? path.resolve(word) : word));
const folder = fs.mkdtempSync(path.join(os.tmpdir(), "rota-web-"));
const SHARDS = 240;
const TTL = 5000;
const SETTINGS = `ttl = "${TTL / 1000}s"\ndrain-limit = "2s"\n[[space]]\nname = "orders"\nshards = ${SHARDS}\n`;
const SCRIPT = "<script>window.isBroken = true</script><b onclick=\"x\">&amp;";
const children = new Set();

// --- nodes ---

function start(program, words, options = {}) {
  const child = spawn(program, words, { stdio: ["ignore", "pipe", fs.openSync(path.join(folder, "log"), "a")], ...options });
  children.add(child);
  child.ended = new Promise((done) => child.on("exit", (code, signal) => { children.delete(child); done(signal ?? code); }));
  return child;
}

// Its first line that fits.
async function lineOf(child, isWanted) {
  for await (const line of readline.createInterface({ input: child.stdout })) if (isWanted(line)) {
    child.stdout.resume();
    return line;
  }
  throw new Error(`it ended with ${await child.ended}: ${fs.readFileSync(path.join(folder, "log"), "utf8").slice(-2000)}`);
}

async function startNode(name, zone, listen = "127.0.0.1:0", http = "127.0.0.1:0") {
  const data = path.join(folder, name);
  fs.mkdirSync(data, { recursive: true });
  fs.writeFileSync(path.join(data, "rotad.toml"), SETTINGS);
  const child = start(rotad, ["--config", path.join(data, "rotad.toml"), "--data", data, "--store", `sqlite:${folder}/store.db`, "--name", name, "--listen", listen, "--http", http, "--workers", "127.0.0.1:0", "--zone", zone]);
  const line = await lineOf(child, (each) => each.startsWith("ready "));
  const reach = Object.fromEntries(line.split(" ").slice(1).map((word) => word.split("=")));
  return { name, zone, child, data, ...reach, address: `http://${reach.http}`, token: () => fs.readFileSync(path.join(data, "token"), "utf8").trim() };
}

const run = (...words) => new Promise((done, fail) => execFile(rota, words, { timeout: TIMEOUT }, (error, out, err) => (error ? fail(new Error(`${words}: ${err}`)) : done(out))));
async function get(node, name) {
  const answer = await fetch(`${node.address}/api/v1/${name}`);
  return { status: answer.status, document: await answer.json() };
}

let nodes = null;
async function live() {
  nodes ??= [await startNode("node-1", "a"), await startNode("node-2", "b"), await startNode("node-3", "a")];
  await until("all are known to the first", async () => (await get(nodes[0], "cluster")).document.nodes.filter((each) => each.state === "serving").length >= 3);
  return nodes;
}

const row = (page, name) => page.getByRole("row").filter({ hasText: name });
const giveToken = (page, node) => page.evaluate((text) => sessionStorage.setItem("token", text), node.token());
const fact = (page, name) => page.locator(".fact", { hasText: name }).locator("b");
const ring = (page) => page.getByRole("slider", { name: "Shards on the ring" });

// --- the tests ---

test("the cluster is shown with its nodes, zones and shards", async (page) => {
  const [one, two, three] = await live();
  await until("all shards are owned", async () => (await get(one, "spaces/orders")).document.shards?.every(([owner, , state]) => owner >= 0 && state === 0));
  await go(page, one.address, "#/cluster");
  for (const node of [one, two, three]) {
    await row(page, node.grpc).getByText("serving").waitFor();
    await row(page, node.grpc).getByText(node.name, { exact: true }).waitFor();
    assert.equal(await row(page, node.grpc).locator("td").nth(1).innerText(), node.zone);
  }
  await fact(page, "shards owned").getByText(String(SHARDS), { exact: true }).waitFor();
  const { document } = await get(one, "spaces/orders");
  await ring(page).focus();
  for (const [key, shard] of [["Home", 0], ["End", SHARDS - 1]]) {
    const [owner, epoch] = document.shards[shard];
    await page.keyboard.press(key);
    await until(`shard ${shard} is told`, async () => (await ring(page).getAttribute("aria-valuetext")) === `shard ${shard} of orders: ${document.node_names[owner]}, epoch ${epoch}, owned`);
  }
  for (const node of [one, two, three]) {
    const n = document.shards.filter(([owner]) => document.nodes[owner] === node.grpc).length;
    await until(`${node.name} has ${n} shards`, async () => (await row(page, node.grpc).locator("td").nth(4).innerText()) === String(n));
  }
  await shoot(page, screenshots, "live-cluster");
});

test("jobs that wait are counted, and pausing is an event", async (page) => {
  const [one] = await live();
  for (let i = 0; i < 7; i++) await run("job", "add", "--node", one.grpc, "--queue", "counted", `payload ${i}`);
  await go(page, one.address, "#/queues/counted");
  await fact(page, "waiting").getByText("7", { exact: true }).waitFor();
  await until("all are listed", async () => (await page.locator("tbody tr").count()) === 7);
  await page.getByText("no worker serves this queue").waitFor();
  await giveToken(page, one);
  await page.getByRole("button", { name: "Pause" }).click();
  await page.getByText("paused", { exact: true }).waitFor();
  assert.equal((await get(one, "queues/counted")).document.items[0].is_paused, true);
  await go(page, one.address, "#/events?q=counted");
  await page.getByText("is paused").first().waitFor(); // each node that has partitions of it tells
  await go(page, one.address, "#/queues/counted");
  await page.getByRole("button", { name: "Resume" }).click();
  await page.getByRole("button", { name: "Pause" }).waitFor();
  assert.equal((await get(one, "queues/counted")).document.items[0].is_paused, false);
});

test("a wrong token changes nothing", async (page) => {
  const [one] = await live();
  await run("job", "add", "--node", one.grpc, "--queue", "guarded", "x");
  await go(page, one.address, "#/queues/guarded");
  await page.getByRole("button", { name: "Pause" }).click();
  await page.getByLabel(/Changes need the token/).fill("0".repeat(64));
  await page.getByRole("button", { name: "Use token" }).click();
  await page.getByRole("alert").filter({ hasText: "No change was made" }).waitFor();
  await page.getByLabel("Payload").fill("y");
  await page.getByRole("button", { name: "Add", exact: true }).click();
  await page.getByLabel(/Changes need the token/).fill(`${one.token()}0`);
  await page.keyboard.press("Enter");
  await until("it is refused", async () => (await page.evaluate(() => sessionStorage.getItem("token"))) === null);
  const [queue] = (await get(one, "queues/guarded")).document.items;
  assert.deepEqual([queue.is_paused, queue.n_waiting], [false, 1]);
});

test("a job that was submitted from the page runs, and its text is text", async (page) => {
  const [one, two] = await live();
  const worker = start(rota, ["work", "--node", two.grpc, "--queue", "shout", "--name", "shouter", "--", "tr", "a-z", "A-Z"]);
  await go(page, one.address, "#/queues");
  await page.getByText("shouter").waitFor();
  await giveToken(page, one);
  await page.getByLabel("Queue", { exact: true }).fill("shout");
  await page.getByLabel("Payload").fill(SCRIPT);
  await page.getByRole("button", { name: "Add", exact: true }).click();
  await page.getByRole("heading", { level: 2 }).getByText("done").waitFor();
  await until("its result is shown", async () => (await page.locator("pre").allInnerTexts()).includes(SCRIPT.toUpperCase()));
  await page.locator(".story").getByText("shouter").first().waitFor();
  assert.equal(await page.evaluate(() => window.isBroken), undefined);
  assert.equal(await page.locator("main script, main b[onclick]").count(), 0);
  await shoot(page, screenshots, "live-job");
  const waiting = JSON.parse(await run("job", "add", "--node", one.grpc, "--queue", "unserved", "--json", SCRIPT));
  await go(page, one.address, `#/queues/${waiting.job}`);
  await until("its payload is shown", async () => (await page.locator("pre").allInnerTexts()).includes(SCRIPT));
  assert.equal(await page.evaluate(() => window.isBroken), undefined);
  worker.kill("SIGKILL");
  await worker.ended;
});

test("a dead job that is retried from the page runs", async (page) => {
  const [one] = await live();
  const flag = path.join(folder, "flag");
  const worker = start(rota, ["work", "--node", one.grpc, "--queue", "brittle", "--", "sh", "-c", `test -f ${flag} || { echo not yet >&2; exit 1; }; wc -c`]);
  const added = JSON.parse(await run("job", "add", "--node", one.grpc, "--queue", "brittle", "--attempts", "1", "--json", "hello"));
  await go(page, one.address, "#/queues/brittle?state=dead");
  await page.getByRole("link", { name: added.job.split("/")[1] }).click();
  await page.getByText("not yet").first().waitFor();
  fs.writeFileSync(flag, "");
  await giveToken(page, one);
  await page.getByRole("button", { name: "Retry", exact: true }).click(); // that of the job's page
  await page.getByRole("heading", { level: 2 }).getByText("done").waitFor();
  assert.equal((await get(one, `queues/brittle/jobs/${added.job.split("/")[1]}`)).document.job.state, "done");
  await page.getByText("retried on request").waitFor();
  worker.kill("SIGKILL");
  await worker.ended;
});

test("a node is drained and undrained from the page", async (page) => {
  const [one, two] = await live();
  await go(page, one.address, "#/cluster");
  await giveToken(page, one);
  await page.getByRole("button", { name: `Drain ${two.name}` }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Drain" }).click();
  await page.getByRole("button", { name: `Undrain ${two.name}` }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Undrain" }).click();
  await row(page, two.grpc).getByText("serving").waitFor();
  await page.getByRole("button", { name: `Drain ${two.name}` }).waitFor();
});

test("a plan that is applied from the page does what it predicted", async (page) => {
  const [one, two] = await live();
  await until("all shards are owned, by all nodes", async () => {
    const { document } = await get(one, "spaces/orders");
    return document.shards.every(([owner, , state]) => owner >= 0 && state === 0) && document.shards.some(([owner]) => document.nodes[owner] === two.grpc);
  });
  const { document } = await get(one, "spaces/orders");
  const n = document.shards.filter(([owner]) => document.nodes[owner] === two.grpc).length;
  await go(page, one.address, "#/plan");
  await giveToken(page, one);
  await page.getByLabel(`remove ${two.name}`).check();
  await page.getByRole("heading", { name: "Preview" }).waitFor();
  await page.locator("tr", { hasText: "orders" }).getByText(String(n), { exact: true }).first().waitFor();
  await until("it can be applied", async () => !(await page.getByRole("button", { name: "Apply" }).isDisabled()));
  await shoot(page, screenshots, "live-plan");
  assert.equal((await get(one, "cluster")).document.nodes.find((each) => each.address === two.grpc).is_draining, false);
  await page.getByRole("button", { name: "Apply" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Apply" }).click();
  await page.getByText("The outcome matches the prediction.").waitFor();
  await shoot(page, screenshots, "live-outcome");
  await go(page, one.address, "#/cluster");
  await until("it has no shards", async () => (await row(page, two.grpc).locator("td").nth(4).innerText()) === "0");
  await page.getByRole("button", { name: `Undrain ${two.name}` }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Undrain" }).click();
  await row(page, two.grpc).getByText("serving").waitFor();
});

test("a queue gets the partitions and the mode that a plan gives it from the page", async (page) => {
  const [one] = await live();
  await go(page, one.address, "#/queues/laid");
  await giveToken(page, one);
  await page.getByLabel("Payload").fill("x");
  await page.getByRole("button", { name: "Add", exact: true }).click();
  await page.waitForURL(/#\/queues\/laid\/./); // the page goes to the job once it is added
  await go(page, one.address, "#/queues/laid");
  await fact(page, "partitions").getByText("16", { exact: true }).waitFor();
  await go(page, one.address, "#/plan");
  await page.getByLabel("laid", { exact: true }).fill("24");
  await page.getByLabel("Mode").selectOption("lookup");
  await page.getByText("give queue laid 24 partitions").waitFor();
  await page.getByText("spread the partitions of queue laid by batch 16 and mode lookup").waitFor();
  await until("it can be applied", async () => !(await page.getByRole("button", { name: "Apply" }).isDisabled()));
  await page.getByRole("button", { name: "Apply" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Apply" }).click();
  await page.getByText("The outcome matches the prediction.").waitFor();
  await go(page, one.address, "#/queues/laid");
  await fact(page, "partitions").getByText("24", { exact: true }).waitFor();
});

// How long a process waited for its turn at most while something happened: what a busy machine adds.
function meetDelays() {
  let worst = 0, last = Date.now();
  const timer = setInterval(() => {
    worst = Math.max(worst, Date.now() - last);
    last = Date.now();
  }, 20);
  return () => (clearInterval(timer), worst);
}

// Times that the page has in its text, by which the nodes say when it was.
const stamps = (locator) => locator.locator("time").evaluateAll((list) => list.map((each) => Date.parse(each.dateTime)));

// docs/node.md says within which time: a ttl, a tenth of it and 2 s; two ttl for shards. The time
// runs from when the node was last heard of, and the nodes' own clock counts.
test("a node that was killed is shown dead, and its shards elsewhere, within the stated time", async (page) => {
  const all = await live();
  const [one, , three] = all;
  await go(page, one.address, "#/cluster");
  await row(page, three.grpc).getByText("serving").waitFor();
  await until("it has shards", async () => Number(await row(page, three.grpc).locator("td").nth(4).innerText()) > 0);
  const { document } = await get(one, "spaces/orders");
  const shard = document.shards.findIndex(([owner]) => document.nodes[owner] === three.grpc);
  const endDelays = meetDelays();
  three.child.kill("SIGKILL");
  await row(page, three.grpc).getByText("dead", { exact: true }).waitFor();
  await until("it has none any more", async () => (await row(page, three.grpc).locator("td").nth(4).innerText()) === "0");
  await fact(page, "shards owned").getByText(String(SHARDS), { exact: true }).waitFor();
  await page.locator("section", { hasText: "Moves" }).getByText(/\d+ shards?/).first().waitFor();
  await shoot(page, screenshots, "live-dead");
  const heard = (await get(one, "cluster")).document.nodes.find((each) => each.address === three.grpc).heard_ms;

  await go(page, one.address, `#/cluster/orders/${shard}`);
  const section = page.locator("section").filter({ has: page.getByRole("heading", { name: `Shard ${shard}`, exact: true }) });
  const since = async () => (await section.locator(".story li").first().innerText()).includes(three.name) ? null : (await stamps(section))[0];
  await section.locator(".story li").first().waitFor();
  const moved = await until("the page says since when another has it", since);
  await go(page, one.address, `#/events?kind=node&q=${encodeURIComponent(`${three.name} is dead`)}`);
  const died = await until("its death is an event", async () => (await stamps(page.locator("tbody tr")))[0]);
  const delay = 2 * endDelays();
  console.log(`# dead after ${died - heard} ms, shards elsewhere after ${moved - heard} ms; others waited for up to ${delay / 2} ms`);
  assert.ok(died - heard <= TTL * 1.1 + 2000 + delay, `held for dead ${died - heard} ms after it was last heard of`);
  assert.ok(moved - heard <= 2 * TTL + delay, `its shards moved ${moved - heard} ms after it was last heard of`);
  all[2] = await startNode("node-3", "a", three.grpc, three.http);
  await go(page, one.address, "#/cluster");
  await row(page, three.grpc).getByText("serving").waitFor();
});

test("the page of a node that ends says so, and goes on when it is back", async (page) => {
  const all = await live();
  const [, two] = all;
  await go(page, two.address, "#/queues");
  await page.getByText("live", { exact: true }).waitFor();
  two.child.kill("SIGKILL");
  await page.getByText(/The node has not responded for/).waitFor();
  all[1] = await startNode("node-2", "b", two.grpc, two.http);
  await page.getByText("live", { exact: true }).waitFor();
  await page.getByText(/The node has not responded for/).waitFor({ state: "hidden" });
});

test("a cluster with its load fills all pages", async (page) => {
  const up = start(rota, ["up", "--json", "--data", path.join(folder, "up")], { env: { ...process.env, ROTA_ROTAD: rotad } });
  const ready = JSON.parse(await lineOf(up, (line) => JSON.parse(line).event === "ready"));
  const node = { address: ready.dashboard.replace(/\/$/, "") };
  await go(page, node.address, "#/cluster");
  for (const { name, grpc } of ready.nodes) {
    await row(page, grpc).getByText("serving").waitFor();
    await row(page, grpc).getByText(name, { exact: true }).waitFor();
    assert.equal(await row(page, grpc).locator(".chip").innerText(), name.replace("node-", "")); // the numbers of the ring are those of the names
  }
  await go(page, node.address, "#/queues/sample");
  await until("jobs are done", async () => parseFloat(await fact(page, "done").innerText()) > 0);
  await shoot(page, screenshots, "live-queue");
  const calls = await until("calls are told", async () => (await get(node, "calls")).document.calls?.find((each) => each.n_calls > 0));
  await go(page, node.address, "#/calls");
  await page.getByText(calls.collection).first().waitFor();
  await page.getByText(calls.replica).first().waitFor();
  await shoot(page, screenshots, "live-calls");
  const group = await until("a group with tasks and partitions is told", async () => (await get(node, "groups")).document.groups?.find((each) => each.n_tasks > 0 && each.n_partitions > 0));
  await go(page, node.address, "#/groups");
  await page.getByRole("link", { name: group.name, exact: true }).click();
  const { document } = await get(node, `groups/${group.name}`);
  assert.ok(document.tasks.length > 0 && document.partitions.length > 0);
  for (const { name } of document.tasks) await page.getByText(name, { exact: true }).first().waitFor();
  await page.locator(".tree .names li").first().waitFor();
  await shoot(page, screenshots, "live-groups");
  await go(page, node.address, "#/events");
  await page.locator("tbody tr").first().waitFor();
  up.kill("SIGTERM");
  assert.equal(await up.ended, 0);
});

test("chaos strikes nodes, and the page shows that nothing is lost", async (page) => {
  const up = start(rota, ["up", "--chaos", "--json", "--data", path.join(folder, "chaos")], { env: { ...process.env, ROTA_ROTAD: rotad } });
  const ready = JSON.parse(await lineOf(up, (line) => JSON.parse(line).event === "ready"));
  // The page of a node that is down does not live: whatever happens, one of the others shows it.
  const seen = async (isSeen) => {
    for (const { http } of ready.nodes) {
      const answer = await fetch(`http://${http}/api/v1/ledger`, { signal: AbortSignal.timeout(2000) }).catch(() => null);
      const ledger = (await answer?.json().catch(() => null))?.ledger;
      if (ledger && isSeen(ledger)) return { http, ledger };
    }
    return null;
  };
  let struck = null;
  await until("a node is down, and jobs are done", async () => (struck = await seen((ledger) => ledger.down.length > 0 && ledger.done > 0)));
  assert.deepEqual(struck.ledger.told, []);
  assert.ok(ready.nodes.some(({ grpc }) => grpc === struck.ledger.down[0].node), JSON.stringify(struck));
  await go(page, `http://${struck.http}`, "#/cluster");
  const panel = page.getByRole("region", { name: "Chaos test" });
  await panel.getByText("nothing lost so far").waitFor();
  await until("its figures are the cluster's", async () => parseInt(await panel.locator(".fact b").first().innerText(), 10) >= struck.ledger.done);
  await shoot(page, screenshots, "live-chaos");
  up.kill("SIGINT");
  up.kill("SIGTERM"); // without waiting for the verdict, which test_up.py does
  await up.ended;
});

runAll(names).then(async (nFailed) => {
  for (const child of children) child.kill("SIGKILL");
  await Promise.all([...children].map((child) => child.ended));
  fs.rmSync(folder, { recursive: true, force: true });
  process.exit(nFailed ? 1 : 0);
});
