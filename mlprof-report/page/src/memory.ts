// Interaction for the chart of memory over time, which the page already contains.

import { follow } from "./cursor";
import { element } from "./dom";
import { bytes, duration } from "./number";
import type { Report } from "./tree";

interface Memory {
  times_seconds: number[];
  categories: { category: string; bytes: number[] }[];
}

/** Makes the chart respond to pointer and keyboard events. */
export function answerInMemory(host: HTMLElement, report: Report): void {
  const svg = host.querySelector("svg");
  const memory = ((report["memory_over_time"] ?? []) as Memory[])[Number(host.dataset.memory)];
  if (svg === null || memory === undefined) return;
  const [start, end] = [Number(host.dataset.start), Number(host.dataset.end)];
  const width = svg.viewBox.baseVal.width;
  const times = memory.times_seconds;
  const x = (seconds: number): number => (width * (seconds - start)) / (end - start);
  const total = (index: number): number => memory.categories.reduce((sum, one) => sum + (one.bytes[index] ?? 0), 0);
  const most = Math.max(...times.map((_, index) => total(index)));
  follow(host, svg, {
    count: times.length,
    at: (share) => {
      const seconds = start + share * (end - start);
      const later = times.findIndex((time) => time > seconds);
      return (later < 0 ? times.length : later) - 1;
    },
    span: (index) => {
      const left = x(times[index] ?? start);
      return [left, x(times[index + 1] ?? end) - left];
    },
    say: (index) => {
      const sum = total(index);
      const parts = memory.categories
        .map(({ category, bytes: levels }) => ({ name: category.replace(/_/g, " "), size: levels[index] ?? 0 }))
        .filter(({ size }) => size > 0)
        .sort((one, other) => other.size - one.size)
        .map(({ name, size }) => `${name} ${bytes(size)} (${((100 * size) / sum).toFixed(0)} %)`);
      return [element("b", {}, bytes(sum)), ` at ${[duration(times[index] ?? 0), ...parts].join(" · ")}`];
    },
    standsOut: (index) => total(index) === most,
  });
}
