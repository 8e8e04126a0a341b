// User actions on a trace page.

import assert from "node:assert/strict";

import { accessible, finished, open, openedBothWays, table, texts, typed } from "./page.mjs";

export const scenarios = {
  /** Step times, devices, and the critical path as a bar with pointer and keyboard control. */
  async traces() {
    const page = await open();
    assert.deepEqual(await texts(page, "h2"), ["Run", "What to do", "Simple · fit", "Ranks", "Trace · rank 0", "Trace · rank 1"]);
    const times = await table(page, "Time by action and activity; the rows add up");
    assert.ok((await times.column(1)).length >= 3, "actions");
    const numbers = await texts(page, "[data-test=this] tbody tr :nth-child(3)");
    await (await times.title(3)).click();
    assert.deepEqual(await texts(page, "[data-test=this] tbody tr :nth-child(3)"), [...numbers].reverse(), "sorted");
    await times.done();
    const names = await table(page, "Times by name on all threads; self times add up to the threads' time without idle time");
    await typed(page, "[data-tools=this] input[type=search]", "softmax");
    assert.deepEqual(await names.column(1), ["aten::softmax"], "searched");
    await names.done();
    // The whole bar represents the step, and a tooltip describes the part under the pointer.
    const bar = await page.$("[data-stretches] svg");
    const drawn = await bar.$$eval("rect:not(.cursor)", (all) =>
      all.map((one) => Number(one.getAttribute("width"))).reduce((sum, one) => sum + one, 0));
    assert.ok(Math.abs(drawn - 1100) < 1, `as wide as the step is long: ${drawn}`);
    await bar.scrollIntoView();
    const box = await bar.boundingBox();
    await page.mouse.move(box.x + box.width * 0.02, box.y + 5);
    const said = async () => (await texts(page, "[data-stretches] .status"))[0];
    assert.match(await said(), /at 0.00 s .*train_dataloader_next, waiting for data · thread 1/);
    await bar.evaluate((one) => one.focus());
    await page.keyboard.press("End");
    const end = await said();
    await page.keyboard.press("Home");
    assert.notEqual(await said(), end, "keys go along the path");
    await page.keyboard.press("ArrowRight");
    assert.match(await said(), /at 25\.\d µs/);
    // The table of segments is collapsed and can be searched.
    const title = /Critical path of step \d+, by segment/;
    const titles = await texts(page, "summary");
    const place = titles.findIndex((words) => title.test(words));
    assert.ok(place >= 0, titles.join("; "));
    await (await page.$$("summary"))[place].click();
    assert.ok((await texts(page, "details[open] tbody tr")).length > 3);
    const slow = await texts(page, "section p");
    assert.ok(slow.some((words) => /^Rank 1 is slow: its own work takes/.test(words)), "a slow rank is named");
    const dark = await open({ dark: true });
    for (const one of [page, dark]) await accessible(one);
    await finished([page, dark]);
  },

  async traces_without_scripts() {
    const [, live] = await openedBothWays();
    await finished([live]);
  },

  async hostile_traces() {
    const page = await open();
    assert.equal(await page.evaluate(() => window.broken), undefined, "no name ran");
    assert.equal(await page.$$eval("img, iframe, object", (all) => all.length), 0);
    assert.equal(await page.$$eval("script", (all) => all.length), 2, "those of the page");
    const bar = await page.$("[data-stretches] svg");
    await bar.evaluate((one) => one.focus());
    for (let count = 0; count < 6; count += 1) await page.keyboard.press("ArrowRight");
    assert.equal(await page.$$eval("img", (all) => all.length), 0, "nor of what is said of the path");
    const shown = await page.evaluate(() => document.body.innerText);
    assert.ok(shown.includes("</script>") && !shown.includes("\u202e"), "names are shown, and turn nothing around");
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
    assert.ok(wide <= 0, `the page is not wider than its window: ${wide}`);
    await finished([page]);
  },
};
