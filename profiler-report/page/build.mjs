// Bundles the script and the style sheet of the page, and says what its policy allows: these two.
// `node build.mjs FOLDER` writes page.js, page.css and policy.txt into FOLDER.

import { createHash } from "node:crypto";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { build } from "esbuild";

const folder = process.argv[2];
if (folder === undefined) {
  console.error("usage: node build.mjs FOLDER");
  process.exit(2);
}

async function bundled(entry, options) {
  const result = await build({
    entryPoints: [entry],
    bundle: true,
    minify: true,
    charset: "ascii",
    legalComments: "none",
    write: false,
    ...options,
  });
  const text = result.outputFiles[0].text.trim();
  // The page has it between tags of its own.
  if (/<\/(script|style)|<!--/i.test(text)) throw new Error(`${entry} would end its own element`);
  return text;
}

const hash = (text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;

const script = await bundled("src/main.ts", { format: "iife", target: "es2020" });
const style = await bundled("src/page.css", { target: ["chrome100", "firefox100", "safari15"] });
const policy =
  `default-src 'none'; script-src ${hash(script)}; style-src ${hash(style)}; ` +
  "base-uri 'none'; form-action 'none'";
mkdirSync(folder, { recursive: true });
writeFileSync(join(folder, "page.js"), script);
writeFileSync(join(folder, "page.css"), style);
writeFileSync(join(folder, "policy.txt"), policy);
