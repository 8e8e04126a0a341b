// User actions on a comparison page.

import assert from "node:assert/strict";

import { accessible, finished, open, openedBothWays, table, texts, typed } from "./page.mjs";

export const scenarios = {
  /** Compares two runs: regressions come first, and tables can be sorted and searched. */
  async comparison() {
    const page = await open();
    assert.match((await texts(page, "#summary li"))[0], /Actions: .* slower, × 8.0 \(at least × 7/);
    const caption = "Actions: the median of calls without the first one";
    const actions = await table(page, caption);
    const verdicts = await actions.column(2);
    const worse = verdicts.filter((verdict) => verdict === "slower").length;
    assert.ok(worse > 0 && verdicts.slice(0, worse).every((verdict) => verdict === "slower"), `${verdicts}`);
    const names = await actions.column(1);
    await (await actions.title(1)).click();
    assert.deepEqual(await actions.column(1), [...names].sort(), "sorted by name");
    await typed(page, "[data-tools=this] input[type=search]", "checkpoint");
    assert.deepEqual(await actions.column(1), ["save_checkpoint"], "searched");
    const dark = await open({ dark: true });
    for (const one of [page, dark]) await accessible(one);
    await finished([page, dark]);
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
};
