// Bundles the script and the style sheet of the page, and writes a content security policy that
// allows only these two. `node build.mjs FOLDER` writes page.js, page.css and policy.txt into
// FOLDER.

import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { build } from "esbuild";

const folder = process.argv[2];
if (folder === undefined) {
  console.error("usage: node build.mjs FOLDER");
  process.exit(2);
}

async function bundled(name, options) {
  const result = await build({
    bundle: true,
    minify: true,
    charset: "ascii",
    legalComments: "none",
    write: false,
    ...options,
  });
  const text = result.outputFiles[0].text.trim();
  // The page embeds the text in an element, which the text must not close.
  if (/<\/(script|style)|<!--/i.test(text)) throw new Error(`${name} would end its own element`);
  return text;
}

const hash = (text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;

// The policy forbids inline styles, so bars, heat and tree levels have a class for each step.
const classes = (count, rule) => Array.from({ length: count }, (_, index) => rule(index + 1)).join("\n");
const steps = [
  classes(50, (n) => `.b${n} { background-size: ${2 * n}% 100%; }`),
  classes(9, (n) => `.h${n} { background: rgba(var(--heat), ${(0.075 * n).toFixed(3)}); }`),
  classes(24, (n) => `table:not(.flat) .d${n} { padding-left: ${(2.1 + 1.35 * (n - 1)).toFixed(2)}em; }`),
  // On a narrow screen, names need the space.
  "@media (max-width: 45rem) {",
  classes(24, (n) => `table:not(.flat) .d${n} { padding-left: ${(0.6 + 0.5 * Math.min(n, 8)).toFixed(1)}em; }`),
  "}",
];

const script = await bundled("src/main.ts", {
  entryPoints: ["src/main.ts"],
  format: "iife",
  target: "es2020",
});
const style = await bundled("src/page.css", {
  stdin: { contents: [readFileSync("src/page.css", "utf8"), ...steps].join("\n"), loader: "css" },
  target: ["chrome100", "firefox100", "safari15"],
});
const policy =
  `default-src 'none'; script-src ${hash(script)}; style-src ${hash(style)}; ` +
  "base-uri 'none'; form-action 'none'";
mkdirSync(folder, { recursive: true });
writeFileSync(join(folder, "page.js"), script);
writeFileSync(join(folder, "page.css"), style);
writeFileSync(join(folder, "policy.txt"), policy);
