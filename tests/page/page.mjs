// A page in a browser with simulated user actions. Any console message, network request or
// violation of the page's content policy is an error.

import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { pathToFileURL } from "node:url";

import axe from "axe-core";
import puppeteer from "puppeteer-core";

const file = process.argv[3];
const BROWSERS = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
const executablePath = process.env.MLPROF_TEST_BROWSER ?? BROWSERS.find((path) => existsSync(path));
assert.ok(executablePath, "there is no browser: install Debian's chromium, or name one in MLPROF_TEST_BROWSER");

export const browser = await puppeteer.launch({
  executablePath,
  headless: true,
  args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-dev-shm-usage"],
});
const complaints = [];
const address = pathToFileURL(file).href;

export async function open({ javascript = true, dark = false, width = 1300, height = 900 } = {}) {
  const page = await browser.newPage();
  await page.setViewport({ width, height });
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

export const texts = (page, selector) =>
  page.$$eval(selector, (all) => all.filter((one) => one.offsetParent !== null).map((one) => one.textContent));

/** Finds the table whose caption is or begins with `caption`, and marks it for selectors. */
export async function table(page, caption) {
  const found = await page.$$eval(
    "table",
    (tables, caption) => {
      const isIts = (text) => text === caption || text?.startsWith(`${caption}. `);
      const index = tables.findIndex((table) => isIts(table.caption?.textContent));
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

export async function typed(page, selector, text) {
  await page.$eval(selector, (input) => (input.value = ""));
  await page.type(selector, text);
  await new Promise((resolve) => setTimeout(resolve, 250));
}

/** Opens the page without and with scripts, and checks that the tables have the same text. */
export async function openedBothWays() {
  const plain = await open({ javascript: false });
  const live = await open();
  // The script adds a row that stands for the small rows.
  const rows = (page) => page.$$eval("tbody tr:not(.fold)", (all) => all.map((row) => row.textContent));
  const [one, other] = [await rows(plain), await rows(live)];
  assert.ok(one.length > 10, "tables are there");
  assert.deepEqual(one, other);
  return [plain, live];
}

/** Waits for the chart of calls. Charts are drawn when they come into view. */
export async function settled(page) {
  await (await page.$("[data-tree=calls]")).scrollIntoView();
  await page.waitForSelector("[data-tree=calls] .box");
}

/** Checks the current page against WCAG 2.2: contrast, names of controls, keyboard and order. */
export async function accessible(page) {
  const violations = await page.evaluate(async (source) => {
    (0, eval)(source);
    const { violations } = await window.axe.run(document, {
      runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
    });
    return violations.map(({ id, help, nodes }) => `${id}: ${help}: ${nodes.length} × ${nodes[0].html.slice(0, 200)} ${nodes[0].failureSummary}`);
  }, axe.source);
  assert.deepEqual(violations, []);
}

/** Checks that no page caused a complaint. */
export async function finished(pages) {
  for (const page of pages) {
    complaints.push(...(await page.evaluate(() => window.breaches)).map((breach) => `policy: ${breach}`));
  }
  assert.deepEqual(complaints, []);
}
