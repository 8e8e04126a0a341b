// Interaction for the strip of steps, which the page already contains.

import { follow } from "./cursor";
import { element } from "./dom";
import { count, duration } from "./number";
import type { Report } from "./tree";

/** A step, or several steps that share a bar. Omitted fields are 0. */
interface Entry {
  number: number;
  count?: number;
  start_seconds: number;
  seconds: number;
  longest?: { number: number; seconds: number };
  slowest?: { name: string; seconds: number };
  [part: string]: unknown;
}

export interface Series {
  stage: string | null;
  entries: Entry[];
}

const PARTS = ["data", "forward", "backward", "collective", "optimizer", "other"];

/** Makes the strip respond to pointer and keyboard events. */
export function bringToLife(host: HTMLElement, report: Report): void {
  const svg = host.querySelector("svg");
  const series = (report.step_series ?? []) as Series[];
  if (svg === null || series.length === 0) return;
  // The order must match the page: by time, and for equal times in the order of the series.
  const bars = series.slice(0, 2).flatMap((one, index) => one.entries.map((entry) => ({ entry, isValidation: index === 1 })));
  bars.sort((one, other) => one.entry.start_seconds - other.entry.start_seconds);
  const pitch = Number(host.dataset.pitch);
  // The page contains the list of long steps.
  const long = new Set((host.dataset.long ?? "").split(" ").filter(Boolean).map(Number));
  follow(host, svg, {
    count: bars.length,
    at: (share) => Math.floor(share * bars.length),
    span: (index) => [index * pitch, pitch],
    say: (index) => {
      const bar = bars[index];
      return bar ? said(bar.entry, bar.isValidation) : [];
    },
    standsOut: (index) => long.has(index),
  });
}

function mean(entry: Entry): number {
  return entry.seconds / (entry.count ?? 1);
}

/** Returns the description of a bar, such as `Step 7 at 1.20 s: 34.5 ms · data 20.0 ms (58 %) · …`. */
function said(entry: Entry, isValidation: boolean): (Node | string)[] {
  const many = entry.count ?? 1;
  const what = isValidation ? "Validation" : "Step";
  const name = many === 1 ? `${what} ${count(entry.number)}` : `${what}s ${count(entry.number)} to ${count(entry.number + many - 1)}`;
  const parts = PARTS.map((part) => ({ part, seconds: Number(entry[`${part}_seconds`] ?? 0) / many }))
    .filter(({ seconds }) => seconds > 0)
    .sort((one, other) => other.seconds - one.seconds)
    .map(({ part, seconds }) => `${part} ${duration(seconds)} (${((100 * seconds) / mean(entry)).toFixed(0)} %)`);
  const each = many === 1 ? "" : " each";
  const said = [`at ${duration(entry.start_seconds)}: ${duration(mean(entry))}${each}`, ...parts];
  if (entry.longest) said.push(`the longest, ${count(entry.longest.number)}: ${duration(entry.longest.seconds)}`);
  if (entry.slowest) said.push(`most in ${entry.slowest.name}, ${duration(entry.slowest.seconds)}`);
  return [element("b", {}, name), ` ${said.join(" · ")}`];
}
