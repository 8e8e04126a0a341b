// Conversion of the trees in reports to one form: calls, sampled stacks, modules, and memory by action.

import { shown } from "./dom";
import { bytes, count, duration } from "./number";

/** Node of a tree, with its children. */
export interface Place {
  name: string;
  /** Seconds or bytes, including the children. */
  value: number;
  /** Further description as text. */
  detail: string;
  /** Kind of the node, such as `Action` or `Function`. */
  kind: string;
  children: Place[];
}

/** One of the trees that a chart can show, such as the tree of a thread. */
export interface Tree {
  title: string;
  places: Place[];
  write: (value: number) => string;
}

interface CallNode {
  function: { file: string; line: number; name: string };
  kind: string;
  calls: { total_calls: number; self_seconds: number; cumulative_seconds: number };
  children: CallNode[];
}

interface ThreadTree {
  thread: string;
  threads: number;
  roots: CallNode[];
  deeper: { parent: number; children: CallNode[] }[];
}

interface Samples {
  seconds_per_tick: number;
  functions: { name: string; library: string; file: string | null; line: number | null }[];
  stacks: {
    parent: number | null;
    action?: string;
    function?: number;
    working_ticks: number;
    waiting_ticks: number;
  }[];
}

interface ModuleCost {
  forward_seconds: number;
  backward_seconds: number;
  forward_device_seconds: number;
  backward_device_seconds: number;
}

interface Module {
  name: string;
  type_name: string;
  calls: number;
  total: ModuleCost;
  children: Module[];
}

interface Path {
  action: string;
  bytes: number;
  blocks: number;
  own_bytes: number;
  inside: Path[];
}

/** Report as parsed JSON. Fields that this script does not read can have any type. */
export type Report = Record<string, unknown>;

/** Returns the trees of a report that a chart requests by name. */
export function treesOf(report: Report, which: string): Tree[] {
  switch (which) {
    case "calls":
      return (report["threads"] as ThreadTree[]).map(callTree).filter((tree) => tree.places.length > 0);
    case "samples":
      return [sampleTree(report["samples"] as Samples)];
    case "modules":
      return moduleTrees(report["modules"] as Module[]);
    default: {
      const tree = report[which] as { blocks: Path } | undefined;
      return tree ? [{ title: "", places: tree.blocks.inside.map(pathPlace), write: bytes }] : [];
    }
  }
}

function callTree(thread: ThreadTree): Tree {
  // Nodes are in the order of the file. Nodes below the fiftieth level refer to their parents by this index.
  const nodes: CallNode[] = [];
  const walk = (node: CallNode): void => {
    nodes.push(node);
    node.children.forEach(walk);
  };
  thread.roots.forEach(walk);
  for (const { parent, children } of thread.deeper ?? []) {
    children.forEach(walk);
    nodes[parent]?.children.push(...children);
  }
  const name = shown(thread.thread);
  const title = thread.threads > 1 ? `${name} (${thread.threads} threads)` : name;
  return { title, places: byValue(thread.roots.map(callPlace)), write: duration };
}

function callPlace(node: CallNode): Place {
  const { file, line, name } = node.function;
  const place = line > 0 ? ` · ${shown(file)}:${line}` : "";
  return {
    name: shown(name),
    value: node.calls.cumulative_seconds,
    detail: `${count(node.calls.total_calls)} calls, ${duration(node.calls.self_seconds)} in itself${place}`,
    kind: node.kind,
    children: byValue(node.children.map(callPlace)),
  };
}

function sampleTree(samples: Samples): Tree {
  const places: Place[] = samples.stacks.map((node) => {
    const code = node.function === undefined ? undefined : samples.functions[node.function];
    const where = code?.file ? `${shown(code.file)}:${code.line ?? "?"}` : shown(code?.library ?? "");
    return {
      name: shown(node.action ?? code?.name ?? ""),
      value: node.working_ticks * samples.seconds_per_tick,
      detail: where,
      kind: node.action === undefined ? "function" : "action",
      children: [],
    };
  });
  const roots: Place[] = [];
  // Parents come before their children, so a backward loop visits children first.
  for (let index = places.length - 1; index >= 0; index -= 1) {
    const place = places[index];
    const parent = samples.stacks[index]?.parent;
    if (place === undefined || place.value === 0) continue;
    place.children = byValue(place.children);
    const above = parent === null || parent === undefined ? undefined : places[parent];
    if (above) {
      above.value += place.value;
      above.children.push(place);
    } else roots.push(place);
  }
  return { title: "", places: byValue(roots), write: duration };
}

function moduleTrees(modules: Module[]): Tree[] {
  const host = (cost: ModuleCost): number => cost.forward_seconds + cost.backward_seconds;
  const device = (cost: ModuleCost): number => cost.forward_device_seconds + cost.backward_device_seconds;
  const trees: Tree[] = [];
  for (const [title, cost] of [["Host time", host], ["Device time", device]] as const) {
    const place = (module: Module): Place => {
      const children = module.children.map(place);
      const below = children.reduce((sum, child) => sum + child.value, 0);
      return {
        name: shown(typed(module)),
        value: Math.max(cost(module.total), below),
        detail: `${count(module.calls)} calls`,
        kind: "module",
        children,
      };
    };
    const places = modules.map(place).filter((one) => one.value > 0);
    if (places.length > 0) trees.push({ title, places, write: duration });
  }
  return trees;
}

function typed({ name, type_name: type }: Module): string {
  return type === "" || type === name ? name : `${name}: ${type}`;
}

function pathPlace(path: Path): Place {
  return {
    name: shown(path.action),
    value: path.bytes,
    detail: `${count(path.blocks)} blocks, ${bytes(path.own_bytes)} by itself`,
    kind: "action",
    children: path.inside.map(pathPlace),
  };
}

function byValue(places: Place[]): Place[] {
  return places.sort((one, other) => other.value - one.value);
}
