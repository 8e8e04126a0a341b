// Opens a page in a browser and does what a person does: `node browser.mjs SCENARIO PAGE`.
// Fails on any message on the console, any request, and any breach of the page's policy.

import assert from "node:assert/strict";
import { existsSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

import puppeteer from "puppeteer-core";

const [scenario, file] = process.argv.slice(2);
const BROWSERS = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
const executablePath = process.env.MLPROF_TEST_BROWSER ?? BROWSERS.find((path) => existsSync(path));
assert.ok(executablePath, "there is no browser: install Debian's chromium, or name one in MLPROF_TEST_BROWSER");

const browser = await puppeteer.launch({
  executablePath,
  headless: true,
  args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-dev-shm-usage"],
});
const complaints = [];
const address = pathToFileURL(file).href;

async function open({ javascript = true, dark = false, width = 1300 } = {}) {
  const page = await browser.newPage();
  await page.setViewport({ width, height: 900 });
  await page.setJavaScriptEnabled(javascript);
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: dark ? "dark" : "light" }]);
  page.on("console", (message) => complaints.push(`console: ${message.text()}`));
  page.on("pageerror", (error) => complaints.push(`error: ${error}`));
  page.on("dialog", (dialog) => complaints.push(`dialog: ${dialog.message()}`));
  page.on("request", (request) => {
    if (request.url() !== address) complaints.push(`request: ${request.url()}`);
  });
  await page.evaluateOnNewDocument(() => {
    window.breaches = [];
    document.addEventListener("securitypolicyviolation", (event) => window.breaches.push(event.violatedDirective));
  });
  await page.goto(address);
  return page;
}

const texts = (page, selector) =>
  page.$$eval(selector, (all) => all.filter((one) => one.offsetParent !== null).map((one) => one.textContent));

/** The table with this caption, by a mark of its own. */
async function table(page, caption) {
  const found = await page.$$eval(
    "table",
    (tables, caption) => {
      const index = tables.findIndex((table) => table.caption?.textContent === caption);
      tables[index]?.setAttribute("data-test", "this");
      tables[index]?.closest(".scroll")?.previousElementSibling?.setAttribute("data-tools", "this");
      return index;
    },
    caption,
  );
  assert.ok(found >= 0, `there is no table ${caption}`);
  return {
    column: (number) => texts(page, `[data-test=this] tbody tr :nth-child(${number}):is(td, th)`),
    title: (number) => page.$(`[data-test=this] thead th:nth-child(${number}) button`),
    done: () => page.$$eval("[data-test], [data-tools]", (all) => all.forEach((one) => {
      one.removeAttribute("data-test");
      one.removeAttribute("data-tools");
    })),
  };
}

async function typed(page, selector, text) {
  await page.$eval(selector, (input) => (input.value = ""));
  await page.type(selector, text);
  await new Promise((resolve) => setTimeout(resolve, 250));
}

/** The page without scripts and with them: what its tables say is the same. */
async function openedBothWays() {
  const plain = await open({ javascript: false });
  const live = await open();
  const rows = (page) => page.$$eval("tbody tr", (all) => all.map((row) => row.textContent));
  const [one, other] = [await rows(plain), await rows(live)];
  assert.ok(one.length > 10, "tables are there");
  assert.deepEqual(one, other);
  return [plain, live];
}

/** Waits for the chart of calls: charts are drawn when they come into view. */
async function settled(page) {
  await (await page.$("[data-tree=calls]")).scrollIntoView();
  await page.waitForSelector("[data-tree=calls] .box");
}

const scenarios = {
  /** Everything a report can have: sorting, searching, grouping, zooming, by mouse and by keyboard. */
  async everything() {
    const page = await open();
    await settled(page);
    let actions = await table(page, "Actions of all threads");
    const names = await actions.column(1);
    assert.ok(names.length > 1, "there are rows");
    await (await actions.title(1)).click();
    assert.deepEqual(await actions.column(1), [...names].sort(), "sorted by name");
    await (await actions.title(1)).click();
    assert.deepEqual(await actions.column(1), [...names].sort().reverse(), "and the other way around");
    // By keyboard, by number.
    await (await actions.title(3)).focus();
    await page.keyboard.press("Enter");
    const totals = await page.$$eval("[data-test=this] tbody tr td:nth-child(3)", (cells) => cells.map((cell) => Number(cell.dataset.v)));
    assert.deepEqual(totals, [...totals].sort((a, b) => b - a), "sorted by total");
    assert.equal(await page.$eval("[data-test=this] thead th:nth-child(3)", (title) => title.getAttribute("aria-sort")), "descending");
    await actions.done();

    // Search: the first one that there is.
    const ops = await table(page, "Ops, kernels, actions and modules of the recorded steps");
    const all = await ops.column(1);
    await typed(page, "[data-tools=this] input[type=search]", all[1]);
    const left = await ops.column(1);
    assert.ok(left.length < all.length && left.every((name) => name.includes(all[1])), `${left} of ${all}`);
    await page.$eval("[data-tools=this] input[type=search]", (input) => {
      input.value = "";
      input.dispatchEvent(new Event("input"));
    });
    await new Promise((resolve) => setTimeout(resolve, 250));
    assert.deepEqual(await ops.column(1), all, "all are back");

    // Grouping by kind: as many rows as kinds, and all calls among them.
    const calls = () => page.$$eval("[data-test=this] tbody tr", (rows) => {
      const titles = [...rows[0].closest("table").tHead.rows[0].cells].map((cell) => cell.textContent);
      return rows.reduce((sum, row) => sum + Number(row.cells[titles.indexOf("Calls")].dataset.v), 0);
    });
    const before = await calls();
    const kind = await page.$$eval("[data-tools=this] select option", (options) => options.find((option) => option.textContent === "Kind").value);
    const kinds = new Set(await ops.column(Number(kind) + 1));
    await page.select("[data-tools=this] select", kind);
    const grouped = (await texts(page, "[data-test=this] tbody th")).filter((name) => name !== "");
    assert.deepEqual(new Set(grouped), kinds);
    assert.equal(await calls(), before, "calls add up");
    await page.select("[data-tools=this] select", "");
    assert.deepEqual(new Set(await ops.column(1)), new Set(all), "and back");
    await ops.done();

    // The icicle of calls: a click zooms, Escape goes back, arrows go down, the search marks.
    const chart = "[data-tree=calls]";
    const boxes = () => page.$$eval(`${chart} .box`, (all) => all.map((box) => [box.textContent, box.offsetWidth]));
    const whole = await boxes();
    assert.ok(whole.length > 2, "there are boxes");
    const inner = await page.$$eval(`${chart} .box`, (all) => {
      const index = all.findIndex((box) => box.getAttribute("aria-level") === "3");
      all[index].click();
      return all[index].getAttribute("aria-label");
    });
    const zoomed = await page.$eval(`${chart} .box`, (box) => [box.getAttribute("aria-label"), box.offsetWidth, box.parentElement.offsetWidth]);
    assert.equal(zoomed[0], inner, "what was clicked fills the chart");
    assert.ok(zoomed[2] - zoomed[1] <= 2, `${zoomed}`);
    assert.ok((await texts(page, `${chart} .path button`)).length >= 2, "the way back is there");
    await page.keyboard.press("Escape");
    await page.keyboard.press("Escape");
    await page.keyboard.press("Escape");
    assert.deepEqual(await boxes(), whole, "Escape goes back");
    await page.focus(`${chart} .box`);
    await page.keyboard.press("ArrowDown");
    assert.equal(await page.evaluate(() => document.activeElement.getAttribute("aria-level")), "2");
    await page.keyboard.press("Enter");
    assert.notDeepEqual(await boxes(), whole, "Enter zooms");
    await page.keyboard.press("Escape");
    const wanted = whole[2][0] || whole[1][0];
    await typed(page, `${chart} input[type=search]`, wanted);
    assert.ok((await texts(page, `${chart} .box.found`)).includes(wanted));
    assert.match((await texts(page, `${chart} .status`))[0], /found: .* %/);

    // A finding leads to the row that it talks of.
    assert.match((await texts(page, "#findings li"))[0], /Saving checkpoints.*at most 1.00 ms a step, 2.00 s of the run, 30.0 %.*save less often/);
    await (await page.$("#findings a")).click();
    assert.equal(await page.evaluate(() => document.activeElement.textContent), "save_checkpoint");
    assert.ok(await page.evaluate(() => document.activeElement.closest("#r0 tr") !== null));

    // `/` goes to a search.
    await page.evaluate(() => document.activeElement.blur());
    await page.keyboard.press("/");
    assert.equal(await page.evaluate(() => document.activeElement.type), "search");

    // Every chart of the page, and both schemes.
    await page.$$eval(".icicle", (all) => all.forEach((one) => one.scrollIntoView()));
    for (const host of await page.$$(".icicle")) {
      await host.scrollIntoView();
      await host.waitForSelector(".box");
    }
    const paper = (page) => page.$eval("body", (body) => getComputedStyle(body).backgroundColor);
    const dark = await open({ dark: true });
    assert.notEqual(await paper(page), await paper(dark), "there is a dark scheme");
    await finished([page, dark]);
  },

  /** The strip of steps: one bar each, marks that lead to rows, pointer and arrows. */
  async steps() {
    const strip = "#r0-steps + .strip";
    const page = await open();
    const bars = (page) => page.$eval(`${strip} path.p1`, (path) => path.getAttribute("d").split("M").length - 1);
    assert.equal(await bars(page), 60, "one bar per step");
    const validations = await page.$eval(`${strip} path.p5`, (path) => path.getAttribute("d").split("M").length - 1);
    assert.equal(validations, 5);
    assert.deepEqual(await texts(page, `${strip} .key`), ["data", "forward", "backward", "optimizer", "other", "validation"]);
    // Those that took long have a mark, which leads to a row that says why.
    const marks = await page.$$eval(`${strip} a`, (all) => all.map((one) => one.getAttribute("aria-label")));
    assert.deepEqual(marks, ["Step 20: 336 ms", "Step 41: 107 ms"]);
    await (await page.$(`${strip} a:nth-of-type(2)`)).click();
    assert.equal(await page.evaluate(() => location.hash), "#r0-step-41");
    const row = (number) => page.$$eval(`#r0-step-${number} :is(td, th)`, (cells) => cells.map((cell) => cell.textContent));
    const [, at, took, times, cause, data, forward, backward] = await row(41);
    assert.deepEqual([at, took, cause, data, forward, backward], ["4.10 s", "107 ms", "backward, +70.0 ms", "1.00 ms", "10.4 ms", "90.0 ms"]);
    assert.ok(Number(times) > 2.8 && Number(times) < 3, times);
    assert.ok((await row(41)).at(-1).startsWith("aten::mm"));
    assert.equal((await row(20))[4], "data, +299 ms");
    // A click anywhere says what stands there; arrows go on.
    const svg = await page.$(`${strip} svg`);
    await svg.scrollIntoView();
    const box = await svg.boundingBox();
    const said = async () => (await texts(page, `${strip} .status`))[0];
    // Of 65 bars the third is step 2.
    await page.mouse.click(box.x + (2.5 * box.width) / 65, box.y + box.height - 5);
    assert.match(await said(), /^Step 2 at 200 ms: 37.0 ms · backward 20.0 ms \(54 %\) · forward/);
    await page.$eval(`${strip} svg`, (svg) => svg.focus());
    await page.keyboard.press("ArrowRight");
    assert.match(await said(), /^Step 3 /);
    await page.keyboard.press("PageDown");
    assert.match(await said(), /^Step 20 at 2.00 s: 336 ms · data 300 ms/, "the next long one");
    await page.keyboard.press("End");
    assert.match(await said(), /^Step 59 /);
    // It can be read without scripts, in both schemes and in print.
    const plain = await open({ javascript: false, dark: true });
    assert.equal(await bars(plain), 60);
    assert.equal(await plain.$$eval("#r0-step-20 td", (cells) => cells[4].textContent), "data, +299 ms");
    await plain.emulateMediaType("print");
    const height = await plain.$eval(`${strip} svg`, (svg) => svg.getBoundingClientRect().height);
    assert.ok(height > 50, `it is printed: ${height}`);
    await finished([page]);
  },

  /** What tables say without scripts is what scripts leave standing. */
  async without_scripts() {
    const [plain, live] = await openedBothWays();
    assert.ok((await texts(plain, "h3")).includes("Actions"));
    assert.equal((await plain.$$("input, select")).length, 0, "no control that does nothing");
    await finished([live]);
  },

  /** Names that would be markup, and others that nobody expects. */
  async hostile() {
    const page = await open();
    await settled(page);
    assert.equal(await page.evaluate(() => window.broken), undefined, "no name ran");
    assert.equal(await page.$$eval("img, iframe, object", (all) => all.length), 0);
    assert.equal(await page.$$eval("script", (all) => all.length), 2, "those of the page");
    for (const box of await page.$$("[data-tree=calls] .box")) await box.focus();
    // Marks of direction are shown as such, also in what scripts add.
    const marked = await page.$$eval(".icicle, table, option", (all) => all.filter((one) => one.textContent.includes("\u202e")).length);
    assert.equal(marked, 0);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
    assert.ok(wide <= 0, `the page is not wider than its window: ${wide}`);
    const shown = await page.evaluate(() => document.body.innerText);
    assert.ok(shown.includes("</script>") && shown.includes("🔥"), "names are shown as they are");
    await finished([page]);
  },

  /** A long run: the page answers, and says what it left out. */
  async large() {
    const page = await open();
    await settled(page);
    const shown = await page.evaluate(() => document.body.innerText);
    assert.match(shown, /is left out: .* rows of tables/);
    const visible = await page.$$eval("tbody tr", (rows) => rows.filter((row) => row.offsetParent !== null).length);
    assert.ok(visible < 500, `few rows at first: ${visible}`);
    await page.$eval(".more:not([hidden])", (button) => button.click());
    const more = await page.$$eval("tbody tr", (rows) => rows.filter((row) => row.offsetParent !== null).length);
    assert.ok(more > visible, "and all that there are on demand");
    const timing = await page.evaluate(() => {
      const [navigation] = performance.getEntriesByType("navigation");
      const [paint] = performance.getEntriesByName("first-contentful-paint");
      return { loaded: navigation.loadEventEnd, painted: paint?.startTime };
    });
    console.log(`milliseconds: ${JSON.stringify(timing)}`);
    await finished([page]);
  },

  /** Two runs side by side: what got worse on top, in words and in tables that are sorted and searched. */
  async comparison() {
    const page = await open();
    assert.match((await texts(page, "#summary li"))[0], /Actions: .* slower, \+100.0 %/);
    const caption = "Actions: the median of calls, but for the first one";
    const actions = await table(page, caption);
    const verdicts = await actions.column(2);
    const worse = verdicts.filter((verdict) => verdict === "slower").length;
    assert.ok(worse > 0 && verdicts.slice(0, worse).every((verdict) => verdict === "slower"), `${verdicts}`);
    const names = await actions.column(1);
    await (await actions.title(1)).click();
    assert.deepEqual(await actions.column(1), [...names].sort(), "sorted by name");
    await typed(page, "[data-tools=this] input[type=search]", "checkpoint");
    assert.deepEqual(await actions.column(1), ["save_checkpoint"], "searched");
    await finished([page, await open({ dark: true })]);
  },

  async comparison_without_scripts() {
    const [, live] = await openedBothWays();
    await finished([live]);
  },

  async hostile_comparison() {
    const page = await open();
    assert.equal(await page.evaluate(() => window.broken), undefined, "no name ran");
    assert.equal(await page.$$eval("img, iframe, object", (all) => all.length), 0);
    assert.equal(await page.$$eval("script", (all) => all.length), 2, "those of the page");
    const shown = await page.evaluate(() => document.body.innerText);
    assert.ok(shown.includes("</script>") && !shown.includes("\u202e"), "names are shown, and turn nothing around");
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
    assert.ok(wide <= 0, `the page is not wider than its window: ${wide}`);
    await finished([page]);
  },

  /** Pictures of every section, for somebody to look at: `MLPROF_TEST_PICTURES` names a folder. */
  async pictures() {
    const folder = process.env.MLPROF_TEST_PICTURES;
    mkdirSync(folder, { recursive: true });
    for (const dark of [false, true]) {
      const page = await open({ dark });
      for (const [index, section] of (await page.$$("main > section")).entries()) {
        await section.scrollIntoView();
        await new Promise((resolve) => setTimeout(resolve, 300));
        await section.screenshot({ path: join(folder, `${index}-${dark ? "dark" : "light"}.png`) });
      }
    }
  },
};

async function finished(pages) {
  for (const page of pages) {
    complaints.push(...(await page.evaluate(() => window.breaches)).map((breach) => `policy: ${breach}`));
  }
  assert.deepEqual(complaints, []);
}

try {
  assert.ok(scenario in scenarios, `there is no scenario ${scenario}`);
  await scenarios[scenario]();
  console.log("passed");
} finally {
  await browser.close();
}
