// The pages over recorded documents: test_pages.js SCREENSHOTS [NAME...]. Prints TAP.
"use strict";
const { assert, test, runAll, until, go, shoot, overflow, barriers, faint, nameless, unreached } = require("./browser.js");
const { serve, makeLedger, TOKEN, SCRIPT, ID } = require("./recorded.js");

const [screenshots, ...names] = process.argv.slice(2);
const PAGES = { cluster: "#/cluster", shard: "#/cluster/sessions/17", queues: "#/queues", queue: "#/queues/mail?state=dead", job: `#/queues/mail/${ID}`, calls: "#/calls", groups: "#/groups",
  group: "#/groups/orders/p0-0", plan: "#/plan", outcome: "#/plan/1", events: "#/events" };
// What each shows that only its documents can tell it.
const TRUTHS = { cluster: ["512", "shards of sessions", "box-2", "10.0.0.2:7700"], shard: ["Shard 17", "the next point after its place"], queues: ["mail", "mailer-1", "smtp"], queue: [ID, "Rate per second"], job: ["3 attempts failed", "451 greylisted"],
  calls: ["sessions", "half-open", "180 ms"], groups: ["orders", "sqlite:orders.db"], group: ["p0-0-1", "leader"], plan: ["Queue partitions"], outcome: ["The outcome matches the prediction."], events: ["joined zone b", "epoch 12 begins"] };

async function withServer(options, run) {
  const server = await serve(options);
  try {
    await run(server);
  } finally {
    await server.close();
  }
}
const recorded = (name, run, { context, ...options } = {}) => test(name, (page, world) => withServer(options, (server) => run(page, server, world)), { context });

const show = async (page, server, name) => {
  await go(page, server.address, PAGES[name]);
  for (const text of TRUTHS[name]) await page.locator("main").getByText(text).first().waitFor();
};
const giveToken = (page, token = TOKEN) => page.evaluate((text) => sessionStorage.setItem("token", text), token);
const ring = (page) => page.getByRole("slider", { name: "Shards on the ring" });
const row = (page, name) => page.getByRole("row").filter({ hasText: name });

// --- what is shown ---

for (const scheme of ["light", "dark"])
  recorded(`each page shows its documents, ${scheme}, with enough contrast`, async (page, server) => {
    for (const name of Object.keys(PAGES)) {
      await show(page, server, name);
      if (name === "plan") {
        await giveToken(page);
        await page.getByRole("button", { name: "Add a host" }).click();
        await page.getByRole("heading", { name: "Preview" }).waitFor();
      }
      const { found, n } = await faint(page);
      assert.deepEqual(found, [], name);
      assert.ok(n > 30, `${name} has only ${n} elements`);
      await shoot(page, screenshots, `${name}-${scheme}`);
    }
  }, { context: { colorScheme: scheme } });

recorded("axe finds nothing wrong on any page, with more nodes than fit", async (page, server) => {
  for (const name of Object.keys(PAGES)) {
    await show(page, server, name);
    assert.deepEqual(await barriers(page), [], name);
  }
}, { nodes: 20, context: { viewport: { width: 900, height: 700 } } });

recorded("nodes have the number of their place in the list, on every page", async (page, server) => {
  for (const name of ["cluster", "shard", "plan"]) { // each is the first page of a visit
    await show(page, server, name);
    const numbers = await page.locator(name === "plan" ? "#plan-form .chip" : "table .chip").allTextContents();
    assert.deepEqual(numbers, numbers.map((_, i) => String(i + 1)), name);
    assert.ok(numbers.length > 3, `${name} shows ${numbers.length} nodes`);
    await page.goto("about:blank");
  }
}, { nodes: 7 });

recorded("an address without a page says so", async (page, server) => {
  for (const name of ["nothing", "constructor"]) {
    await go(page, server.address, `#/${name}`);
    await page.getByText("Page not found").waitFor();
    assert.equal(await page.locator("#nav [aria-current]").count(), 0, name);
  }
  await page.locator("main").getByRole("link", { name: "Cluster" }).click();
  await page.getByText("shards of sessions").waitFor();
});

recorded("an outcome does not read like another move", async (page, server) => {
  await show(page, server, "outcome");
  await page.getByText("Shards per node: actual of predicted").waitFor();
  const told = await page.locator("main").innerText();
  assert.ok(/\d of \d/.test(told) && !told.includes("→"), told);
});

recorded("on a phone no page is wider than the screen", async (page, server) => {
  server.documents.queues.items[0].name = "mail";
  server.documents.queues.items[1].name = `thumbnails-${"x".repeat(120)}`;
  for (const name of Object.keys(PAGES)) {
    await show(page, server, name);
    assert.ok((await overflow(page)) <= 0, `${name} is ${await overflow(page)} px too wide`);
    await shoot(page, screenshots, `${name}-phone`);
  }
}, { context: { viewport: { width: 360, height: 740 }, hasTouch: true } });

recorded("the switch of colors goes round and is remembered", async (page, server) => {
  await show(page, server, "cluster");
  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const system = await ground();
  await page.keyboard.press("t");
  await page.getByRole("button", { name: "Colors: light" }).waitFor();
  assert.equal(await ground(), system);
  await page.getByRole("button", { name: "Colors: light" }).click();
  await page.getByRole("button", { name: "Colors: dark" }).waitFor();
  const dark = await ground();
  assert.notEqual(dark, system);
  await page.reload();
  await page.getByRole("button", { name: "Colors: dark" }).waitFor();
  assert.equal(await ground(), dark);
});

recorded("text that looks like markup is text", async (page, server) => {
  for (const name of ["job", "queue", "events"]) {
    await show(page, server, name);
    await page.locator("main").getByText(SCRIPT).first().waitFor();
    assert.equal(await page.locator("main script, main img").count(), 0);
  }
  assert.equal(await page.evaluate(() => window.isBroken), undefined);
});

// --- a check of the cluster ---

const check = (page) => page.getByRole("region", { name: "Chaos test" });
const tellLedger = (server, changes) => {
  server.documents.ledger = { ledger: { ...makeLedger(Date.now()), ...changes }, why_away: null };
  server.tell("ledger");
};

for (const scheme of ["light", "dark"])
  recorded(`a check shows that nothing is lost while a node is down, ${scheme}`, async (page, server) => {
    await show(page, server, "cluster");
    assert.equal(await page.getByText(/chaos/i).count(), 0); // nothing is said of checks where none runs
    tellLedger(server, { down: [{ name: "node-2", node: "10.0.0.2:7700", how: "stopped", since_ms: Date.now() - 3000 }] });
    await check(page).getByText("nothing lost so far").waitFor();
    for (const text of ["476 of 480", "1,234", "rows read from 41 partitions", "903", "node-2", "Kills and pauses so far: 11"]) await check(page).getByText(text).first().waitFor();
    assert.equal(await check(page).locator(".fact b.good").count(), 4);
    assert.deepEqual((await faint(page)).found, []);
    await shoot(page, screenshots, `chaos-${scheme}`);
    tellLedger(server, {});
    await check(page).getByText("All nodes are up").waitFor();
  }, { context: { colorScheme: scheme } });

recorded("a check that finds something says what, as text", async (page, server) => {
  const { faults } = makeLedger(0);
  await show(page, server, "cluster");
  tellLedger(server, { phase: "checking", faults: { ...faults, two_owners: 1, job_lost: 2 }, told: [{ fault: "two_owners", text: SCRIPT }, { fault: "job_lost", text: "job 7 has not ended" }] });
  await check(page).getByText("3 violations").waitFor();
  await check(page).getByText("job 7 has not ended").waitFor();
  await check(page).getByText(SCRIPT).waitFor();
  assert.equal(await check(page).getByText("nothing lost so far").count(), 0);
  assert.deepEqual(await check(page).locator(".fact b.bad").allInnerTexts(), ["2", "1"]);
  assert.deepEqual((await faint(page)).found, []);
});

recorded("a chaos test that stopped reporting, or can't be read, says so", async (page, server) => {
  await show(page, server, "cluster");
  tellLedger(server, { at_ms: Date.now() - 60000 });
  await check(page).getByText(/has not reported for/).waitFor();
  server.documents.ledger = { ledger: null, why_away: "ledger.json does not contain a JSON object" };
  server.tell("ledger");
  await page.getByText("ledger.json does not contain a JSON object").waitFor();
  server.documents.ledger = { ledger: {}, why_away: null }; // by another program, which has other things to say
  server.tell("ledger");
  await check(page).getByText("0 of 0").waitFor();
}, { context: { viewport: { width: 360, height: 740 } } });

// --- the ring ---

recorded("the ring tells of each shard who owns it under which epoch", async (page, server) => {
  await show(page, server, "cluster");
  await ring(page).focus();
  for (const [key, shard] of [["Home", 0], ["ArrowDown", 1], ["End", 511], ["ArrowUp", 510]]) {
    await page.keyboard.press(key);
    const [owner, epoch] = server.space.shards[shard];
    await until(`shard ${shard} is told`, async () => (await ring(page).getAttribute("aria-valuetext")) === `shard ${shard} of sessions: ${server.space.node_names[owner]}, epoch ${epoch}, owned`);
  }
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Shard 510" }).waitFor();
  assert.equal(new URL(page.url()).hash, "#/cluster/sessions/510");
});

recorded("the pointer finds the shard whose cell it is on", async (page, server) => {
  await show(page, server, "cluster");
  const box = await ring(page).boundingBox();
  await page.mouse.move(box.x + box.width / 2 + 2, box.y + box.height * (0.5 - 0.35)); // the first column, near the rim
  await until("it is told", async () => /^shard \d of sessions: /.test(await ring(page).getAttribute("aria-valuetext")));
  await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
  await until("nothing is pointed at", async () => (await ring(page).getAttribute("aria-valuetext")) === "512 shards of sessions");
});

recorded("a shard is told with its owner since when, and who had it before", async (page, server) => {
  await show(page, server, "shard");
  const section = page.locator("section").filter({ hasText: "Shard 17" });
  const stamps = () => section.locator("time").evaluateAll((list) => list.map((each) => Date.parse(each.dateTime)));
  await until("its story is told", async () => (await stamps()).length === 3);
  const [since, newest, oldest] = await stamps();
  assert.equal(since, newest);
  assert.ok(newest > oldest);
  const [owner] = server.space.shards[17];
  assert.match(await section.locator(".story li").first().innerText(), new RegExp(`${server.space.node_names[owner]} `));
});

recorded("people see the names of nodes, and their addresses beside them", async (page, server) => {
  server.documents.cluster.nodes[3].name = server.space.node_names[3] = SCRIPT; // whatever a node calls itself is text
  await show(page, server, "cluster");
  await page.locator("td").getByText(SCRIPT, { exact: true }).waitFor();
  assert.match(await row(page, "box-2").locator("td").first().innerText(), /box-2\s+10\.0\.0\.2:7700/);
  await page.getByPlaceholder("Search nodes").fill("10.0.0.3");
  await until("one is found by its address", async () => (await row(page, "box-").count()) === 1 && (await row(page, "box-3").count()) === 1);
  await page.getByPlaceholder("Search nodes").fill("");
  await show(page, server, "shard");
  const [owner] = server.space.shards[17];
  assert.equal(await page.locator("dt", { hasText: "Owner" }).locator("+ dd span").last().innerText(), server.space.node_names[owner]);
  assert.deepEqual(await page.getByLabel("Pin to").locator("option").allInnerTexts(), ["not pinned", ...server.space.node_names]);
  for (const name of ["plan", "events", "calls"]) {
    await show(page, server, name);
    await page.locator("main").getByText("box-1").first().waitFor();
  }
  assert.equal(await page.evaluate(() => window.isBroken), undefined);
}, { nodes: 4 });

recorded("moves are seen as they happen", async (page, server) => {
  await show(page, server, "shard");
  const [owner] = server.space.shards[17];
  const next = (owner + 1) % 3;
  server.move([[17, next], [18, next]]);
  await until("the owner is another", async () => (await ring(page).getAttribute("aria-valuetext")) === `shard 17 of sessions: ${server.space.node_names[next]}, epoch 8, owned`);
  await page.locator("section").filter({ hasText: "Moves" }).getByText(/\d shards?/).first().waitFor();
});

recorded("a node that is dead is shown dead, and its shards elsewhere", async (page, server) => {
  await show(page, server, "cluster");
  const shards = () => page.locator("tr", { hasText: "10.0.0.3:7700" }).locator("td").nth(4).innerText();
  assert.notEqual(await shards(), "0");
  server.kill(2);
  await row(page, "10.0.0.3:7700").getByText("dead", { exact: true }).waitFor();
  await until("it has no shards", async () => (await shards()) === "0");
  await page.getByText(/^nodes? down$/).waitFor();
  await shoot(page, screenshots, "dead-light");
});

// What an update of the page costs: how many changes are made to its elements, and its processor
// time, which a busy machine does not lengthen as it does time. Both for one of `n` updates.
async function measure(page, n, update) {
  const client = await page.context().newCDPSession(page);
  await client.send("Performance.enable", { timeDomain: "threadTicks" });
  const taken = async () => (await client.send("Performance.getMetrics")).metrics.find(({ name }) => name === "TaskDuration").value;
  await page.evaluate(() => {
    window.nChanges = 0;
    const note = (list) => { for (const { addedNodes, removedNodes } of list) window.nChanges += 1 + addedNodes.length + removedNodes.length; };
    window.observer = new MutationObserver(note);
    window.observer.observe(document, { subtree: true, childList: true, attributes: true, characterData: true });
  });
  const before = await taken();
  for (let i = 0; i < n; i++) await update(i);
  const cost = ((await taken()) - before) / n;
  await page.evaluate(() => window.observer.disconnect());
  return { cost, nChanges: (await page.evaluate(() => window.nChanges)) / n };
}

// As somebody would draw shards who did not think of many.
const drawElements = (page, n) => page.evaluate((count) => {
  const box = document.createElement("div");
  for (let i = 0; i < count; i++) box.append(Object.assign(document.createElement("i"), { textContent: String(i) }));
  document.body.append(box);
  box.getBoundingClientRect();
  box.remove();
}, n);

recorded("a hundred nodes and a hundred thousand shards are drawn, and move", async (page, server) => {
  await go(page, server.address, "#/cluster");
  await page.getByText("100,000").first().waitFor();
  assert.equal(await page.locator("tbody tr").count(), 100);
  const { cost, nChanges } = await measure(page, 4, async (i) => {
    server.move(Array.from({ length: 1000 }, (_, j) => [(i * 1000 + j) * 20, (i + j) % 100]));
    server.beat();
    await page.getByText(`version ${server.space.version}`).waitFor();
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => setTimeout(done))));
  });
  await shoot(page, screenshots, "large-light");
  const nElements = await page.evaluate(() => document.querySelectorAll("*").length);
  const { cost: unit } = await measure(page, 1, () => drawElements(page, 100000));
  console.log(`# ${nElements} elements; for 1,000 moves ${nChanges.toFixed(0)} changes of them and ${(cost * 1000).toFixed(0)} ms; an element for each shard takes ${(unit * 1000).toFixed(0)} ms`);
  assert.ok(nElements < 10000, `there are ${nElements} elements`);
  assert.ok(nChanges < 10000, `an update makes ${nChanges} changes`);
  assert.ok(cost < unit, `an update costs ${(cost / unit).toFixed(2)} of drawing an element for each shard`);
  await ring(page).focus();
  await page.keyboard.press("End");
  const [owner, epoch] = server.space.shards[99999];
  await until("the last shard is told", async () => (await ring(page).getAttribute("aria-valuetext")) === `shard 99999 of sessions: ${server.space.node_names[owner]}, epoch ${epoch}, owned`);
}, { nodes: 100, shards: 100000 });

// --- changing ---

recorded("a node is drained after its plan was shown, and not before", async (page, server) => {
  await show(page, server, "cluster");
  await giveToken(page);
  const drain = page.getByRole("button", { name: "Drain box-2" });
  await drain.click();
  await page.getByText("171 shards move to others.").waitFor();
  await page.getByRole("button", { name: "Cancel" }).click();
  assert.deepEqual(server.changes, []);
  await drain.click();
  await page.getByRole("dialog").getByRole("button", { name: "Drain" }).click();
  await row(page, "10.0.0.2:7700").getByText("draining").waitFor();
  assert.deepEqual(server.changes, [["nodes/10.0.0.2%3A7700/drain", { is_dry_run: false }]]);
});

recorded("a wrong token changes nothing, and is asked for again", async (page, server) => {
  await show(page, server, "queue");
  await page.getByRole("button", { name: "Pause" }).click();
  await page.getByLabel(/Changes need the token/).fill("wrong");
  await page.getByRole("button", { name: "Use token" }).click();
  await page.getByRole("alert").filter({ hasText: "No change was made" }).waitFor();
  assert.deepEqual(server.changes, []);
  await page.getByRole("button", { name: "Pause" }).click();
  await page.getByLabel(/Changes need the token/).fill(TOKEN);
  await page.keyboard.press("Enter");
  await until("it was changed", () => server.changes.length === 1);
  assert.deepEqual(server.changes, [["queues/mail/pause", {}]]);
});

recorded("cancelling the question for a token changes nothing", async (page, server) => {
  await show(page, server, "queue");
  for (const leave of [() => page.getByRole("button", { name: "Cancel" }).click(), () => page.keyboard.press("Escape")]) {
    await page.getByRole("button", { name: "Pause" }).click();
    await page.getByLabel(/Changes need the token/).fill(TOKEN);
    await leave();
    await page.getByRole("dialog").waitFor({ state: "hidden" });
  }
  assert.equal(await page.evaluate(() => sessionStorage.getItem("token")), null);
  assert.deepEqual(server.changes, []);
});

recorded("a plan is shown before it is applied, and its outcome after", async (page, server) => {
  await show(page, server, "plan");
  await page.getByRole("button", { name: "Add a host" }).click();
  await page.getByLabel("remove box-1").check();
  await page.getByLabel("Weight of box-2").fill("2");
  await page.getByText("138", { exact: true }).first().waitFor();
  await page.getByText("new-1:7700 joins zone a").waitFor(); // the token is for changes
  assert.deepEqual(server.changes, []);
  await giveToken(page);
  await until("the plan is the one of the form", async () => !(await page.getByRole("button", { name: "Apply" }).isDisabled()));
  await page.getByLabel("Roll out over (minutes)").fill("5");
  await page.getByRole("button", { name: "Apply" }).click();
  await page.getByRole("dialog").getByText("The change rolls out over 5 min.").waitFor();
  await page.getByRole("dialog").getByRole("button", { name: "Apply" }).click();
  await page.getByText("The outcome matches the prediction.").waitFor();
  assert.deepEqual(server.changes, [["plan/apply", { add: [{ name: "new-1:7700", zone: "a", weight: 1 }], remove: ["10.0.0.1:7700"], weights: { "10.0.0.2:7700": 2 }, gradual_ms: 300000 }]]);
});

recorded("a long list of nodes in a plan can be scrolled with the keyboard, and no column is nameless", async (page, server) => {
  const asked = [];
  page.on("response", (response) => asked.push(`${response.request().method()} ${new URL(response.url()).pathname} ${response.status()}`));
  await show(page, server, "plan");
  await page.getByRole("button", { name: "Add a host" }).click();
  await page.getByRole("heading", { name: "Preview" }).waitFor();
  assert.equal(await page.locator(".spread").first().getAttribute("tabindex"), "0");
  assert.deepEqual(asked.filter((each) => each.endsWith(" 405")), []);
  for (const name of ["cluster", "groups", "queue"]) {
    if (!PAGES[name]) continue;
    await show(page, server, name);
    assert.deepEqual(await page.locator("th").evaluateAll((all) => all.filter((each) => each.textContent.trim() === "").length), 0, name);
  }
});

recorded("what is applied is what is shown, whatever answer comes late", async (page, server) => {
  const replies = [];
  const hold = (step, is) => server.previews.push({ is, take: (reply) => replies.push(reply), plan: { moves: 1, n_shards: 512, minimum: 1, spread_before: [], spread_after: [], per_space: [], steps: [step] } });
  hold("The later form.", (wanted) => wanted.remove);
  hold("The earlier form.", () => true);
  await show(page, server, "plan");
  await giveToken(page);
  await page.getByRole("button", { name: "Add a host" }).click();
  await until("the first form is asked about", () => replies.length === 1);
  await page.getByLabel("remove box-1").check();
  await until("the second form is asked about", () => replies.length === 2);
  replies[1]();
  await page.getByText("The later form.").waitFor();
  const late = page.waitForResponse((response) => response.url().endsWith("/api/v1/plan") && response.request().method() === "POST");
  replies[0]();
  await (await late).finished();
  await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
  await page.getByRole("button", { name: "Apply" }).click();
  await page.getByRole("dialog").getByText("The later form.").waitFor();
  await page.getByRole("dialog").getByRole("button", { name: "Apply" }).click();
  await until("it is applied", () => server.changes.length === 1);
  assert.deepEqual(server.changes[0][1].remove, ["10.0.0.1:7700"]);
});

recorded("a late answer does not make a plan of a form that was changed since", async (page, server) => {
  let reply = null;
  server.previews.push({ is: (wanted) => !wanted.remove, take: (each) => { reply = each; } }, { is: () => true, take: () => {} });
  await show(page, server, "plan");
  await page.getByRole("button", { name: "Add a host" }).click();
  await until("the form is asked about", () => reply);
  await page.getByLabel("remove box-1").check();
  const late = page.waitForResponse((response) => response.url().endsWith("/api/v1/plan") && response.request().method() === "POST");
  reply();
  await (await late).finished();
  await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
  assert.equal(await page.getByRole("button", { name: "Apply" }).count(), 0);
});

recorded("a plan says when there are more queues than it shows", async (page, server) => {
  const [queue] = server.documents.queues.items;
  assert.equal(await (await show(page, server, "plan"), page.getByText("First 50 of")).count(), 0);
  server.documents.queues.items = Array.from({ length: 60 }, (_, i) => ({ ...queue, name: `q${i}` }));
  server.tell("queues");
  await page.getByText("First 50 of 60 queues.").waitFor();
});

recorded("queues name the nodes that are not counted", async (page, server) => {
  await show(page, server, "queues");
  Object.assign(server.documents.queues, { missing: ["10.0.0.3:7700"], missing_why: ["node 10.0.0.3:7700: connecting"] });
  server.tell("queues");
  const note = page.getByText("No response from: box-3");
  await note.waitFor();
  assert.equal(await note.getAttribute("title"), "node 10.0.0.3:7700: connecting");
});

recorded("queues say when there are more than they show", async (page, server) => {
  await show(page, server, "queues");
  server.documents.queues.next = "mail";
  server.tell("queues");
  await page.getByText("queues by name, and their sums").waitFor();
  await go(page, server.address, "#/queues/zebra");
  await page.getByText(/4.?711/).first().waitFor();
});

// --- keys ---

recorded("all pages are reached with the keyboard alone", async (page, server) => {
  await show(page, server, "cluster");
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.id), "skip");
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement.id), "main");
  for (const title of ["Queues", "Calls", "Groups", "Plan", "Events", "Cluster"]) {
    await page.evaluate(() => document.getElementById("skip").focus());
    await until(`${title} has the focus`, async () => {
      await page.keyboard.press("Tab");
      return page.evaluate((name) => document.activeElement.closest("nav") && document.activeElement.textContent === name, title);
    });
    const outline = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
    assert.equal(outline, "solid");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: title, level: 2 }).waitFor();
    assert.equal(await page.evaluate(() => document.activeElement.id), "main");
  }
});

recorded("whatever can be used on a page has a name, and is reached with the keyboard", async (page, server) => {
  for (const name of Object.keys(PAGES)) {
    await show(page, server, name);
    if (name === "plan") {
      await page.getByRole("button", { name: "Add a host" }).click();
      await until("the plan is there", async () => (await page.getByRole("button", { name: "Apply" }).count()) === 1 && !(await page.getByRole("button", { name: "Apply" }).isDisabled()));
    }
    assert.deepEqual(await nameless(page), [], name);
    assert.deepEqual(await unreached(page), [], name);
  }
});

recorded("keys of one letter are listed, work, and can be turned off", async (page, server) => {
  await show(page, server, "cluster");
  for (const [i, title] of ["Cluster", "Queues", "Calls", "Groups", "Plan", "Events"].entries()) {
    await page.keyboard.press(String(i + 1));
    await page.getByRole("heading", { name: title, level: 2 }).waitFor();
  }
  await page.keyboard.press("/");
  assert.equal(await page.evaluate(() => document.activeElement.type), "search");
  await page.keyboard.type("2"); // into the field, and no key for a page
  await page.getByRole("heading", { name: "Events", level: 2 }).waitFor();
  await page.keyboard.press("Escape");
  await page.keyboard.press("?");
  await page.getByRole("dialog", { name: "Keyboard shortcuts" }).waitFor();
  await page.getByLabel("Enable single-key shortcuts").uncheck();
  await page.keyboard.press("Escape");
  await page.getByRole("dialog", { name: "Keyboard shortcuts" }).waitFor({ state: "hidden" });
  await page.keyboard.press("2");
  await page.keyboard.press("?");
  await page.getByRole("dialog", { name: "Keyboard shortcuts" }).waitFor();
  await page.getByRole("heading", { name: "Events", level: 2 }).waitFor();
});

recorded("news leave alone what has the focus and what is typed", async (page, server) => {
  await show(page, server, "queue");
  const field = page.getByLabel("Payload");
  await field.fill("half a thou");
  for (let i = 0; i < 5; i++) {
    server.documents.queues.items[0].n_waiting = 700 + i;
    server.beat();
    server.documents.queues.items[0].n_waiting = 700 + i;
    server.tell("queues");
    await page.getByText(String(700 + i)).first().waitFor();
  }
  await page.keyboard.type("ght");
  assert.equal(await field.inputValue(), "half a thought");
  assert.equal(await page.evaluate(() => document.activeElement.name), "payload");
});

recorded("events are found by kind and by word, and the finding has an address", async (page, server) => {
  await show(page, server, "events");
  const rows = page.locator("tbody tr");
  assert.equal(await rows.count(), 7);
  await page.getByRole("group", { name: "Event kinds" }).getByText("node").click();
  await until("two are left", async () => (await rows.count()) === 2);
  await page.getByPlaceholder("Search events").fill("joined");
  await until("one is left", async () => (await rows.count()) === 1);
  const address = page.url();
  await page.goto("about:blank");
  await page.goto(address);
  await page.getByText("joined zone b").waitFor();
  assert.equal(await rows.count(), 1);
});

// --- what is not there ---

recorded("pages without anything say so, and what to do", async (page, server) => {
  for (const [fragment, text] of [["#/cluster", "No space has shards yet"], ["#/queues", "No queues yet"], ["#/queues", "No workers connected"], ["#/queues/none", "No queue none"],
    ["#/queues/mail/00", "Job not found"], ["#/calls", "No calls yet"], ["#/groups", "No groups"], ["#/groups/none", "No group none"], ["#/plan/9", "Plan not found"], ["#/events", "No events yet"]]) {
    await go(page, server.address, fragment);
    await page.getByText(text).waitFor();
  }
}, { isEmpty: true });

recorded("a node that lacks a document says what is missing", async (page, server) => {
  for (const [fragment, text] of [["#/cluster", "No spaces on this node"], ["#/queues", "No queues on this node"], ["#/calls", "No call statistics on this node"], ["#/groups", "No groups on this node"],
    ["#/cluster/sessions", "Cannot show sessions"]]) {
    await go(page, server.address, fragment);
    await page.getByText(text).waitFor();
  }
  await shoot(page, screenshots, "missing-light");
}, { without: ["spaces", "queues", "calls", "groups"] });

recorded("a node that goes away is told, and so is its return", async (page, server) => {
  await show(page, server, "queues");
  await page.getByText("live", { exact: true }).waitFor();
  await page.route("**/api/v1/stream*", (route) => route.abort());
  server.disconnect();
  await page.getByText(/The node has not responded for/).waitFor();
  await page.getByText(/The data shown is from/).waitFor();
  assert.equal(await page.getByRole("link", { name: "box-2" }).first().getAttribute("href"), "http://10.0.0.2:7780/#/queues");
  assert.ok(await page.getByText("mailer-1").isVisible());
  const { found } = await faint(page);
  assert.deepEqual(found, []);
  await shoot(page, screenshots, "away-light");
  await page.unroute("**/api/v1/stream*");
  await page.getByText("live", { exact: true }).waitFor();
  await page.getByText(/The node has not responded for/).waitFor({ state: "hidden" });
});

recorded("before the first news each page says what it waits for", async (page, server) => {
  await page.route("**/api/v1/**", () => {});
  for (const [fragment, text] of [["#/cluster", "the cluster's state"], ["#/queues", "queues"], ["#/calls", "calls"], ["#/groups", "groups"], ["#/events", "events"]]) {
    await go(page, server.address, fragment);
    await page.getByText(`Waiting for ${text}.`).first().waitFor();
  }
});

recorded("who wants less motion sees none", async (page, server) => {
  await show(page, server, "cluster");
  assert.equal(await page.evaluate(() => document.getAnimations().length), 0);
  const picture = () => page.evaluate(() => document.querySelector("canvas").toDataURL());
  const before = await picture();
  const [owner] = server.space.shards[0];
  server.move([[0, (owner + 1) % 3]]);
  const after = await until("the move is drawn", async () => (await picture()) !== before && picture());
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
  assert.equal(await picture(), after); // at once as it stays: no flight, no glow
}, { context: { reducedMotion: "reduce" } });

runAll(names).then((nFailed) => process.exit(nFailed ? 1 : 0));
