// User actions on a report page.

import assert from "node:assert/strict";

import { accessible, finished, open, openedBothWays, settled, table, texts, typed } from "./page.mjs";

export const scenarios = {
  /** A report with all parts: sorting, searching, grouping and zooming by mouse and keyboard. */
  async everything() {
    const page = await open();
    await settled(page);
    let actions = await table(page, "Actions of all threads");
    await (await page.$("[data-tools=this] label input[type=checkbox]")).click(); // turns the tree off
    const names = await actions.column(1);
    assert.ok(names.length > 1, "there are rows");
    await (await actions.title(1)).click();
    assert.deepEqual(await actions.column(1), [...names].sort(), "sorted by name");
    await (await actions.title(1)).click();
    assert.deepEqual(await actions.column(1), [...names].sort().reverse(), "and the other way around");
    // Sorts by a numeric column with the keyboard.
    await (await actions.title(3)).focus();
    await page.keyboard.press("Enter");
    const totals = await page.$$eval("[data-test=this] tbody tr td:nth-child(3)", (cells) => cells.map((cell) => Number.parseFloat(cell.dataset.v ?? cell.textContent)));
    assert.deepEqual(totals, [...totals].sort((a, b) => b - a), "sorted by total");
    assert.equal(await page.$eval("[data-test=this] thead th:nth-child(3)", (title) => title.getAttribute("aria-sort")), "descending");
    await actions.done();

    // Uses the first search field.
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
    await ops.done();

    // The icicle chart of calls: a click zooms in, Escape zooms out, arrow keys move, and the
    // search marks matches.
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

    // A finding links to the row that it refers to.
    assert.match((await texts(page, "#findings li"))[0], /Saving checkpoints.*at most 1.00 ms a step, 2.00 s of the run, 30.0 %.*Save less often/);
    await (await page.$("#findings a")).click();
    assert.equal(await page.evaluate(() => document.activeElement.textContent), "save_checkpoint");
    assert.ok(await page.evaluate(() => document.activeElement.closest("#r0 tr") !== null));

    // The key `/` focuses a search field.
    await page.evaluate(() => document.activeElement.blur());
    await page.keyboard.press("/");
    assert.equal(await page.evaluate(() => document.activeElement.type), "search");

    // Shows all charts of the page, in both color schemes.
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

  /** The tree of actions: sorting siblings, searching with parent rows, turning the tree off. */
  async nesting() {
    const plain = await open({ javascript: false });
    const caption = "Actions of all threads";
    const inside = "#r0 table.nested tbody th[class^=d]";
    const levels = (page) => page.$$eval(inside, (all) => all.slice(0, 7).map((th) => `${th.className} ${th.textContent}`));
    const nested = ["d0 epoch", "d1 batch", "d2 step", "d3 backward", "d3 loss", "d2 zero", "d1 save"];
    assert.deepEqual(await levels(plain), nested, "without scripts");
    const page = await open();
    const actions = await table(page, caption);
    const names = async () => (await actions.column(1)).filter((name) => ["epoch", "batch", "step", "backward", "loss", "zero", "save"].includes(name));
    assert.deepEqual(await names(), nested.map((name) => name.slice(3)));
    const left = (name) => page.$$eval(inside, (all, name) => parseFloat(getComputedStyle(all.find((th) => th.textContent === name)).paddingLeft), name);
    assert.ok((await left("loss")) > (await left("step")) && (await left("step")) > (await left("epoch")), "they are indented");
    // Sorts by name, which only orders siblings.
    await (await actions.title(1)).click();
    assert.deepEqual(await names(), ["epoch", "batch", "step", "backward", "loss", "zero", "save"]);
    await (await actions.title(1)).click();
    assert.deepEqual(await names(), ["epoch", "save", "batch", "zero", "step", "loss", "backward"]);
    // Matches are shown with their parent rows.
    await typed(page, "[data-tools=this] input[type=search]", "loss");
    assert.deepEqual(await names(), ["epoch", "batch", "step", "loss"]);
    assert.match((await texts(page, "[data-tools=this] [role=status]"))[0], /^1 of /);
    await typed(page, "[data-tools=this] input[type=search]", " ");
    // Shows the rows without the tree.
    const toggle = await page.$("[data-tools=this] label input[type=checkbox]");
    await toggle.click();
    assert.deepEqual(await names(), ["zero", "step", "save", "loss", "epoch", "batch", "backward"]);
    assert.equal(await left("loss"), await left("epoch"), "nothing is indented");
    await (await actions.title(3)).click();
    assert.deepEqual(await names(), ["epoch", "batch", "step", "backward", "loss", "save", "zero"], "by total");
    // Returns to the tree with the keyboard.
    await toggle.focus();
    await page.keyboard.press("Space");
    assert.deepEqual(await names(), ["epoch", "batch", "step", "backward", "loss", "zero", "save"]);
    await finished([page]);
  },

  /** Grouping ops by any of their properties, including hidden ones. */
  async grouping() {
    const page = await open();
    const ops = await table(page, "Ops, kernels, actions and modules of the recorded steps");
    const boxes = await page.$$eval("[data-tools=this] fieldset label", (all) => all.map((label) => [label.textContent.trim(), label.querySelector("input").checked]));
    const known = Object.fromEntries(boxes);
    assert.deepEqual([known.Name, known.Kind, known.Module, known.Phase], [true, true, false, false], JSON.stringify(boxes));
    const choose = async (...wanted) => {
      for (const label of await page.$$("[data-tools=this] fieldset label")) {
        const [title, checked] = await label.evaluate((label) => [label.textContent.trim(), label.querySelector("input").checked]);
        if (checked !== wanted.includes(title)) await label.click();
      }
    };
    const rows = () => page.$$eval("[data-test=this] tbody tr:not(.fold)", (rows) => {
      const titles = [...rows[0].closest("table").tHead.rows[0].cells];
      const at = (row, title) => row.cells[titles.findIndex((cell) => cell.textContent === title)];
      const number = (cell) => Number.parseFloat(cell.dataset.v ?? cell.textContent);
      return rows.map((row) => ({
        shown: [...row.cells].filter((cell) => !cell.hidden && cell.dataset.v === undefined && !cell.classList.contains("n")).map((cell) => cell.textContent),
        calls: number(at(row, "Calls")),
        own: number(at(row, "Self host")),
      }));
    });
    const sum = (rows, number) => rows.reduce((sum, row) => sum + row[number], 0);
    const own = await rows();
    // Groups by a column that every row has, which gives one row per kind.
    await choose("Kind");
    const kinds = await rows();
    assert.deepEqual(new Set(kinds.map((row) => row.shown[0])), new Set(own.map((row) => row.shown.at(-1))));
    assert.equal(sum(kinds, "calls"), sum(own, "calls"), "calls add up");
    // Groups by two properties that are not columns. Each of them contains one half of every row.
    await choose("Module", "Phase");
    const halves = await rows();
    const places = halves.map((row) => row.shown.join(" "));
    assert.deepEqual(places.sort(), ["conv1: Conv2d forward", "conv2: Conv2d backward"]);
    assert.equal(sum(halves, "calls"), sum(own, "calls"), "calls add up here, too");
    assert.ok(Math.abs(sum(halves, "own") / sum(own, "own") - 1) < 1e-3, "and so do self times");
    // Groups by all properties, so that every op appears twice. Sorting and searching still work.
    await choose("Name", "Module", "Phase", "Kind");
    assert.equal((await rows()).length, 2 * own.length);
    await typed(page, "[data-tools=this] input[type=search]", "op_7 backward");
    const found = await ops.column(1);
    assert.deepEqual(found, ["aten::op_7"]);
    await typed(page, "[data-tools=this] input[type=search]", " ");
    await (await ops.title(1)).click();
    const names = await page.$$eval("[data-test=this] tbody tr:not(.fold) th", (all) => all.map((th) => th.textContent));
    const order = new Intl.Collator("en", { numeric: true });
    assert.deepEqual(names, [...names].sort(order.compare), "sorted by name");
    // Groups by no property, which gives a single row, and then restores the initial view.
    await choose();
    assert.deepEqual((await rows()).map((row) => row.calls), [sum(own, "calls")]);
    await choose("Name", "Kind");
    const back = await rows();
    const said = (rows) => rows.map((row) => row.shown.join()).sort();
    assert.deepEqual(said(back), said(own));
    assert.ok(Math.abs(sum(back, "own") - sum(own, "own")) < 1e-9);
    await finished([page]);
  },

  /** Small rows are folded into one row with their sums. Long names keep their start and end. */
  async folding() {
    const page = await open();
    await table(page, "Ops, kernels, actions and modules of the recorded steps");
    const rows = "[data-test=this] tbody tr:not(.fold)";
    const count = (rows) => page.$$eval(rows, (all) => all.filter((row) => row.offsetParent !== null).length);
    const calls = (rows) => page.$$eval(rows, (all) => {
      const titles = [...all[0].closest("table").tHead.rows[0].cells].map((cell) => cell.textContent);
      const numbers = all.filter((row) => !row.hidden).map((row) => row.cells[titles.indexOf("Calls")].textContent.replaceAll(",", ""));
      return numbers.reduce((sum, number) => sum + Number(number), 0);
    });
    const all = await page.$$eval(rows, (all) => all.length);
    const button = await page.$("[data-test=this] .fold button");
    assert.equal(await button.evaluate((button) => button.textContent), "50 rows below 0.1 %");
    assert.equal(await count(rows), all - 50);
    const folded = await calls("[data-test=this] tbody tr");
    // The keyboard opens the row. All rows are visible then, with the same sum.
    await button.focus();
    await page.keyboard.press("Enter");
    assert.equal(await button.evaluate((button) => button.getAttribute("aria-expanded")), "true");
    const more = await page.$$("[data-test=this] .more, .more:not([hidden])");
    for (const one of more) await one.evaluate((one) => one.click());
    assert.equal(await count(rows), all);
    assert.equal(await calls(rows), folded, "the sums stay");
    // A search finds small rows, so nothing is folded.
    await button.evaluate((button) => button.click());
    await typed(page, "[data-tools=this] input[type=search]", "op_59");
    assert.equal(await page.$("[data-test=this] .fold"), null);
    assert.equal(await count(rows), 1);
    for (const width of [1300, 400]) {
      const page = await open({ width });
      await table(page, "Ops, kernels, actions and modules of the recorded steps");
      const name = await page.$("[data-test=this] .name");
      const [start, shown] = await name.evaluate((name) => [name.firstChild.scrollWidth > name.firstChild.clientWidth, name.lastChild.data]);
      assert.ok(start && "void cutlass::Kernel<f16>(cutlass_80_tensorop_f16_s16816gemm_relu_f16_256x128_64x3_nn_align8::Params)".endsWith(shown), shown);
      await name.hover();
      assert.match(await name.evaluate((name) => name.title), /^void cutlass.*align8::Params\)$/);
      const copied = await name.evaluate((name) => {
        getSelection().selectAllChildren(name);
        return getSelection().toString();
      });
      assert.match(copied, /^void cutlass.*align8::Params\)$/);
      await name.focus();
      assert.ok(await name.evaluate((name) => name.firstChild.scrollWidth <= name.clientWidth || getComputedStyle(name).display === "inline"));
      await finished([page]);
    }
    await finished([page]);
  },

  /** Several ranks: a finding names the slowest rank and links to its lost time. */
  async ranks() {
    const page = await open();
    const said = await texts(page, "#findings li");
    assert.equal(said.length, 1, `${said}`);
    assert.match(said[0], /Rank 1 needs 3.00 s longer for its own work than rank 0.*3.00 s of the run, 30.0 %/);
    assert.match(said[0], /rule: slowest-rank · in: .*rank 1/);
    await (await page.$("#findings a[data-row]")).click();
    const at = await page.evaluate(() => [document.activeElement.textContent, document.activeElement.closest("section").id]);
    assert.deepEqual(at, ["[_TrainingEpochLoop].train_dataloader_next", "r1"]);
    await finished([page]);
  },

  /** Memory over time: areas, the mark at the peak, explanations, pointer and arrow keys. */
  async memory() {
    const page = await open();
    const picture = ".areas";
    const classes = await page.$$eval(`${picture} g path`, (all) => all.map((path) => path.getAttribute("class")));
    assert.deepEqual(classes, ["p6", "p5", "p1"], "what is above is drawn first");
    const fills = await page.$$eval(`${picture} g path`, (all) => all.map((path) => getComputedStyle(path).fill));
    assert.equal(new Set(fills).size, 3, `each has a colour: ${fills}`);
    assert.deepEqual(await texts(page, `${picture} .key`), ["temporary", "activations", "parameters"]);
    const heading = await page.$eval(picture, (figure) => figure.previousElementSibling.textContent);
    assert.match(heading, /The peak was 57.0. KiB, 40.0 ms after .* in step 2: activations 70.2 %, parameters 28.1 %.* aten::conv2d in conv1: 30.0. KiB/);
    // The mark is at the peak, at two thirds of the width.
    const svg = await page.$(`${picture} svg`);
    await svg.scrollIntoView();
    const [mark, box] = [await (await page.$(`${picture} .mark`)).boundingBox(), await svg.boundingBox()];
    const place = (mark.x + mark.width / 2 - box.x) / box.width;
    assert.ok(Math.abs(place - 40 / 60) < 0.01, `${place}`);
    const said = async () => (await texts(page, `${picture} .status`))[0];
    await page.mouse.click(box.x + (40.5 / 60) * box.width, box.y + box.height - 5);
    assert.match(await said(), /^57.0. KiB at 40.0 ms · activation 40.0. KiB \(70 %\) · parameter 16.0. KiB \(28 %\)/);
    await page.$eval(`${picture} svg`, (svg) => svg.focus());
    await page.keyboard.press("Home");
    assert.match(await said(), /^16.0. KiB at 0.00 s/);
    await page.keyboard.press("PageDown");
    assert.match(await said(), /^57.0. KiB at 40.0 ms/, "the next one that stands out is the peak");
    await page.keyboard.press("ArrowRight");
    assert.match(await said(), / at 41.0 ms/);
    // Checks the page without scripts and in print.
    const plain = await open({ javascript: false });
    const rows = (caption) => plain.$$eval("table", (tables, caption) => {
      const table = tables.find((table) => table.caption.textContent.startsWith(caption));
      return [...table.tBodies[0].rows].map((row) => [...row.cells].map((cell) => cell.textContent));
    }, caption);
    assert.deepEqual((await rows("Memory by category"))[0].slice(0, 3), ["activations", "40.00 KiB", "70.2 %"]);
    const alive = await rows("Memory at the peak");
    assert.deepEqual(alive.map((row) => row[0]), ["aten::conv2d in conv1", "before the recording", "others"]);
    await plain.emulateMediaType("print");
    assert.ok((await plain.$eval(`${picture} svg`, (svg) => svg.getBoundingClientRect().height)) > 50, "it is printed");
    await finished([page, await open({ dark: true })]);
  },

  /** The chart of steps: a bar per step, marks that link to rows, pointer and arrow keys. */
  async steps() {
    const strip = "#r0-steps + .strip";
    const page = await open();
    const bars = (page) => page.$eval(`${strip} path.p1`, (path) => path.getAttribute("d").split("M").length - 1);
    assert.equal(await bars(page), 60, "one bar per step");
    const validations = await page.$eval(`${strip} path.p5`, (path) => path.getAttribute("d").split("M").length - 1);
    assert.equal(validations, 5);
    assert.deepEqual(await texts(page, `${strip} .key`), ["data", "forward", "backward", "optimizer", "other", "validation"]);
    // Long steps have a mark that links to a row with the reason.
    const marks = await page.$$eval(`${strip} a`, (all) => all.map((one) => one.getAttribute("aria-label")));
    assert.deepEqual(marks, ["Step 20: 336 ms", "Step 41: 107 ms"]);
    await (await page.$(`${strip} a:nth-of-type(2)`)).click();
    assert.equal(await page.evaluate(() => location.hash), "#r0-step-41");
    const row = (number) => page.$$eval(`#r0-step-${number} :is(td, th)`, (cells) => cells.map((cell) => cell.textContent));
    const [, cause, took, times, at, data, forward, backward] = await row(41);
    assert.deepEqual([at, took, cause, data, forward, backward], ["4.10 s", "107 ms", "backward, +70.0 ms", "1.00 ms", "10.4 ms", "90.0 ms"]);
    assert.ok(Number(times) > 2.8 && Number(times) < 3, times);
    assert.ok((await row(41)).at(-1).startsWith("aten::mm"));
    assert.equal((await row(20))[1], "data, +299 ms");
    // A click shows the step at that position, and the arrow keys move to other steps.
    const svg = await page.$(`${strip} svg`);
    await svg.scrollIntoView();
    const box = await svg.boundingBox();
    const said = async () => (await texts(page, `${strip} .status`))[0];
    // The third of 65 bars is step 2.
    await page.mouse.click(box.x + (2.5 * box.width) / 65, box.y + box.height - 5);
    assert.match(await said(), /^Step 2 at 200 ms: 37.0 ms · backward 20.0 ms \(54 %\) · forward/);
    await page.$eval(`${strip} svg`, (svg) => svg.focus());
    await page.keyboard.press("ArrowRight");
    assert.match(await said(), /^Step 3 /);
    await page.keyboard.press("PageDown");
    assert.match(await said(), /^Step 20 at 2.00 s: 336 ms · data 300 ms/, "the next long one");
    await page.keyboard.press("End");
    assert.match(await said(), /^Step 59 /);
    // The page is readable without scripts, in both color schemes and in print.
    const plain = await open({ javascript: false, dark: true });
    assert.equal(await bars(plain), 60);
    assert.equal(await plain.$$eval("#r0-step-20 td", (cells) => cells[1].textContent), "data, +299 ms");
    await plain.emulateMediaType("print");
    const height = await plain.$eval(`${strip} svg`, (svg) => svg.getBoundingClientRect().height);
    assert.ok(height > 50, `it is printed: ${height}`);
    await finished([page]);
  },

  /** Accessibility of the page with charts, in both color schemes and on a narrow screen. */
  async accessibility() {
    for (const look of [{}, { dark: true }, { width: 400 }]) {
      const page = await open(look);
      for (const host of await page.$$(".icicle")) {
        await host.scrollIntoView();
        await host.waitForSelector(".box");
      }
      await accessible(page);
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
      assert.ok(wide <= 0, `the page is not wider than its window: ${wide}`);
      await page.close();
    }
    await finished([]);
  },

  /** Print includes collapsed, distant and undrawn content, and fits the width of the paper. */
  async paper() {
    const page = await open();
    await page.pdf({ format: "A4", landscape: true });
    assert.equal(await page.$$eval("details:not([open])", (all) => all.length), 0);
    const charts = await page.$$eval(".icicle", (all) => all.map((one) => one.querySelectorAll(".box").length));
    assert.ok(charts.length > 3 && charts.every((boxes) => boxes > 0), `${charts}`);
    assert.equal(await page.$$eval("tbody tr[hidden]", (all) => all.length), 0);
    // The charts were drawn for the window width, but must also fit on narrower paper.
    await page.emulateMediaType("print");
    const over = await page.$$eval(".chart", (all) => all.map((chart) => {
      const before = chart.getBoundingClientRect().width;
      chart.style.width = "500px";
      const end = Math.max(...[...chart.children].map((box) => box.getBoundingClientRect().right));
      const over = end - chart.getBoundingClientRect().right;
      chart.style.width = "";
      return before > 500 ? over : 1000;
    }));
    assert.ok(over.every((pixels) => pixels <= 1), `${over}`);
    await finished([page]);
  },

  /** Tables have the same text without and with scripts. */
  async without_scripts() {
    const [plain, live] = await openedBothWays();
    assert.ok((await texts(plain, "h3")).includes("Actions"));
    assert.equal((await plain.$$("input, select")).length, 0, "no control that does nothing");
    await finished([live]);
  },

  /** Names that contain markup or unusual characters. */
  async hostile() {
    const page = await open();
    await settled(page);
    assert.equal(await page.evaluate(() => window.broken), undefined, "no name ran");
    assert.equal(await page.$$eval("img, iframe, object", (all) => all.length), 0);
    assert.equal(await page.$$eval("script", (all) => all.length), 2, "those of the page");
    for (const box of await page.$$("[data-tree=calls] .box")) await box.focus();
    // Direction marks are shown as visible text, also in content that scripts add.
    const marked = await page.$$eval(".icicle, table, option", (all) => all.filter((one) => one.textContent.includes("\u202e")).length);
    assert.equal(marked, 0);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
    assert.ok(wide <= 0, `the page is not wider than its window: ${wide}`);
    const shown = await page.evaluate(() => document.body.innerText);
    assert.ok(shown.includes("</script>") && shown.includes("🔥"), "names are shown as they are");
    await finished([page]);
  },

  /** A long run: the page stays responsive and reports omitted rows. */
  async large() {
    const page = await open();
    await settled(page);
    const shown = await page.evaluate(() => document.body.innerText);
    assert.match(shown, /are left out: .* rows of tables/);
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
};
