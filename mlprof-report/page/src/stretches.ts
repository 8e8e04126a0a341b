// Interaction for a bar of consecutive segments, such as a critical path, which the page already contains.

import { follow } from "./cursor";
import { element } from "./dom";
import { duration } from "./number";
import type { Report } from "./tree";

interface Stretches {
  seconds: number[];
  what: string[];
}

/** Makes the bar respond to pointer and keyboard events. */
export function answerInStretches(host: HTMLElement, report: Report): void {
  const svg = host.querySelector("svg");
  const strips = (report["strips"] ?? []) as Stretches[];
  const strip = strips[Number(host.dataset.stretches)];
  if (svg === null || strip === undefined || strip.seconds.length === 0) return;
  const { seconds, what } = strip;
  const all = seconds.reduce((sum, one) => sum + one, 0);
  const starts: number[] = [];
  seconds.reduce((start, one) => (starts.push(start), start + one), 0);
  const width = svg.viewBox.baseVal.width;
  const longest = Math.max(...seconds);
  follow(host, svg, {
    count: seconds.length,
    at: (share) => {
      const later = starts.findIndex((start) => start > share * all);
      return (later < 0 ? seconds.length : later) - 1;
    },
    span: (index) => [(width * (starts[index] ?? 0)) / all, (width * (seconds[index] ?? 0)) / all],
    say: (index) => {
      const own = seconds[index] ?? 0;
      const share = ((100 * own) / all).toFixed(1);
      const when = `${duration(own)} (${share} %) at ${duration(starts[index] ?? 0)}`;
      return [element("b", {}, when), ` ${what[index] ?? ""}`];
    },
    // Segments of at least a fifth of the longest one stand out.
    standsOut: (index) => (seconds[index] ?? 0) >= longest / 5,
  });
}
