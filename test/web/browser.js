// Tests with a browser: each is a name and a function that gets a page; TAP goes to standard output.
// Whatever the page complains of (a mistake in its script, what the policy refuses) fails the test.
"use strict";
const assert = require("node:assert/strict");
const fs = require("node:fs");
const path = require("node:path");
const axe = require("axe-core");
const { chromium } = require("playwright-core");

const TIMEOUT = Number(process.env.ROTA_WEB_TIMEOUT ?? 120) * 1000; // of anything awaited, for a busy machine
const tests = [];
const test = (name, run, options = {}) => tests.push({ name, run, options });

// Answers that are errors are the business of tests; all else that is complained of is none.
const isExpected = (text) => text.startsWith("Failed to load resource");

async function open(browser, options) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, colorScheme: "light", ...options });
  const page = await context.newPage();
  const complaints = [];
  page.setDefaultTimeout(TIMEOUT);
  page.on("pageerror", (error) => complaints.push(error.stack));
  page.on("console", (message) => {
    if (message.type() === "error" && !isExpected(message.text())) complaints.push(message.text());
  });
  return { context, page, complaints };
}

// Await what becomes true in time, without a fixed pause.
async function until(what, isTrue) {
  const end = Date.now() + TIMEOUT;
  for (;;) {
    const value = await isTrue();
    if (value) return value;
    assert.ok(Date.now() < end, `never: ${what}`);
    await new Promise((done) => setTimeout(done, 50));
  }
}

// All tests, or those that are named.
async function runAll(wanted) {
  const browser = await chromium.launch({ executablePath: process.env.ROTA_CHROMIUM, args: process.getuid() === 0 ? ["--no-sandbox"] : [] });
  let n = 0, nFailed = 0;
  for (const { name, run, options } of tests.filter((each) => wanted.length === 0 || wanted.includes(each.name))) {
    const { context, page, complaints } = await open(browser, options.context);
    const began = Date.now();
    let failure = null;
    try {
      await run(page, { browser, context });
      assert.deepEqual(complaints, []);
    } catch (error) {
      failure = error;
    }
    await context.close();
    n++;
    console.log(`# ${((Date.now() - began) / 1000).toFixed(1)} s`);
    console.log(`${failure ? "not ok" : "ok"} ${n} - ${name}`);
    if (failure) {
      nFailed++;
      complaints.forEach((complaint) => console.log(`# the page: ${complaint}`.replace(/\n/g, "\n# ")));
      console.log(String(failure.stack).replace(/^/gm, "# "));
    }
  }
  await browser.close();
  console.log(`1..${n}`);
  return nFailed;
}

// --- looking at pages ---

async function go(page, address, fragment) {
  if (page.url().startsWith(address)) await page.evaluate((hash) => { location.hash = hash; }, fragment);
  else await page.goto(`${address}/${fragment}`);
}

async function shoot(page, directory, name) {
  fs.mkdirSync(directory, { recursive: true });
  await page.screenshot({ path: path.join(directory, `${name}.png`) });
}

const overflow = (page) => page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);

// What axe finds wrong for people who use a keyboard or a screen reader: the rule and where. Contrast is measured below.
async function barriers(page) {
  await page.evaluate(axe.source);
  const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"], rules: { "color-contrast": { enabled: false } } }));
  return violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.target.join(" ")).join(", ")}`);
}

// Text whose contrast is below what WCAG asks for at level AA, each with its ratio.
const faint = (page) => page.evaluate(() => {
  const probe = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const known = new Map(), grounds = new Map();
  const read = (color) => {
    if (!known.has(color)) {
      probe.clearRect(0, 0, 1, 1);
      probe.fillStyle = color;
      probe.fillRect(0, 0, 1, 1);
      known.set(color, [...probe.getImageData(0, 0, 1, 1).data].map((each, i) => (i < 3 ? each : each / 255)));
    }
    return known.get(color);
  };
  const over = ([r, g, b, a], below) => [r, g, b].map((each, i) => each * a + below[i] * (1 - a));
  const linear = (c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4);
  const light = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
  const ground = (element) => {
    if (!element) return [255, 255, 255];
    if (!grounds.has(element)) grounds.set(element, over(read(getComputedStyle(element).backgroundColor), ground(element.parentElement)));
    return grounds.get(element);
  };
  const found = [];
  for (const element of document.querySelectorAll("body *")) {
    const hasText = [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim() !== "");
    const isField = element.matches("input:not([type=range], [type=checkbox]), textarea, select");
    if (!(hasText || isField) || !element.checkVisibility({ visibilityProperty: true }) || element.closest(".hidden, .skip, noscript, :disabled")) continue;
    const style = getComputedStyle(element);
    const below = ground(element);
    const size = parseFloat(style.fontSize);
    const least = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700) ? 3 : 4.5;
    const colors = [element.closest("svg") ? style.fill : style.color];
    if (isField && element.placeholder) colors.push(getComputedStyle(element, "::placeholder").color);
    for (const color of colors) {
      const [a, b] = [light(over(read(color), below)), light(below)].sort((x, y) => y - x);
      const ratio = (a + 0.05) / (b + 0.05);
      if (ratio < least) found.push(`${ratio.toFixed(2)} < ${least}: ${element.tagName}.${element.className} "${(element.textContent || element.placeholder).slice(0, 40)}"`);
    }
  }
  return { found, n: document.querySelectorAll("body *").length };
});

// What can be used on a page, is to be seen, and has no name that could be read out.
const nameless = (page) => page.evaluate(() => {
  const nameOf = (element) => [element.getAttribute("aria-label"), ...[...(element.labels ?? [])].map((label) => label.textContent), element.textContent, element.title, element.placeholder, element.value]
    .find((text) => text?.trim());
  return [...document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex]")]
    .filter((element) => element.checkVisibility({ visibilityProperty: true }) && !nameOf(element) && element.id !== "main").map((element) => element.outerHTML.slice(0, 200));
});

// Press Tab often enough to come round: what has not had the focus, of all that can be used.
async function unreached(page) {
  const n = await page.evaluate(() => {
    window.usable = () => [...document.querySelectorAll("a[href], button:enabled, input:enabled, select:enabled, textarea:enabled, [tabindex='0']")]
      .filter((element) => element.checkVisibility({ visibilityProperty: true }));
    window.reached = new Set();
    document.addEventListener("focusin", ({ target }) => window.reached.add(target));
    document.activeElement.blur();
    return window.usable().length;
  });
  for (let i = 0; i < n + 3; i++) await page.keyboard.press("Tab");
  return page.evaluate(() => window.usable().filter((element) => !window.reached.has(element)).map((element) => element.outerHTML.slice(0, 200)));
}

module.exports = { assert, test, runAll, until, go, shoot, overflow, barriers, faint, nameless, unreached, open, TIMEOUT };
