// Opens a page in a browser and simulates a user: `node browser.mjs SCENARIO PAGE`.

import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { join } from "node:path";

import { scenarios as comparison } from "./comparison.mjs";
import { browser, open } from "./page.mjs";
import { scenarios as reports } from "./reports.mjs";
import { scenarios as traces } from "./traces.mjs";

const scenarios = {
  ...reports,
  ...comparison,
  ...traces,

  /** Saves pictures of each section in both color schemes, on a narrow screen and in print. The
   * environment variable `MLPROF_TEST_PICTURES` names their folder. */
  async pictures() {
    const folder = process.env.MLPROF_TEST_PICTURES;
    mkdirSync(folder, { recursive: true });
    for (const look of ["light", "dark", "narrow", "print"]) {
      // The height keeps the page's header in place. The print width is that of A4 without margins.
      const width = { narrow: 400, print: 1045 }[look];
      const page = await open({ dark: look === "dark", width, height: 12_000 });
      if (look === "print") await page.emulateMediaType("print");
      for (const [index, section] of (await page.$$("main > section")).entries()) {
        await section.scrollIntoView();
        await new Promise((resolve) => setTimeout(resolve, 300));
        const title = await section.$eval("h2", (title) => title.textContent.replace(/\W+/g, "-"));
        await section.screenshot({ path: join(folder, `${index}-${title}-${look}.png`) });
      }
    }
  },
};

const scenario = process.argv[2];
try {
  assert.ok(scenario in scenarios, `there is no scenario ${scenario}`);
  await scenarios[scenario]();
  console.log("passed");
} finally {
  await browser.close();
}
