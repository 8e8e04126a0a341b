// Runs the program without any imports and checks its reports: node run.mjs PROGRAM

import { readFileSync } from "node:fs";

const module = new WebAssembly.Module(readFileSync(process.argv[2]));
const imports = WebAssembly.Module.imports(module);
if (imports.length > 0) {
  throw new Error(`it needs ${imports.map(({ module, name }) => `${module}.${name}`)}`);
}
const { memory, run, length } = new WebAssembly.Instance(module, {}).exports;
// A panic would be a WebAssembly trap, which is an exception here.
const start = run();
const text = new TextDecoder().decode(new Uint8Array(memory.buffer, start, length()));
const NOTE = "nothing is measured: wasm32 without an operating system has no clock";
for (const report of text.split("\n---\n")) {
  const [name] = report.split(":");
  const notes = report.split(NOTE).length - 1;
  const measures = ["simple", "advanced", "tensor", "pytorch"].includes(name);
  if (measures ? notes !== 1 : notes > 1) {
    throw new Error(`${notes} notes in the report of ${name}:\n${report}`);
  }
  console.log(`${name}: ${measures ? "one note" : "no panic"}`);
}
