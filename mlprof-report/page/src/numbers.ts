// Exact numbers of op tables. The cells have three digits; the report has all digits.

import { titlesOf } from "./dom";
import type { Report } from "./tree";

interface KeyAverage {
  calls: number;
  polls?: number;
  is_on_device?: boolean;
  cpu_seconds?: number;
  device_seconds?: number;
  first_seconds?: number;
  flops?: number;
  moved_bytes?: number;
  rest?: { min_seconds: number; max_seconds: number };
  memory?: { self_allocated_bytes: number }[];
  [number: string]: unknown;
}

/** Returns the mean time of the calls except the first, like `KeyAverage::rest_mean_seconds`. */
function meanOfRest(row: KeyAverage): number | undefined {
  if (row.rest === undefined) return undefined;
  const total = (row.is_on_device ? row.device_seconds : row.cpu_seconds) ?? 0;
  const others = Math.max(1, Math.max(row.calls, row.polls ?? 0) - 1);
  const mean = (total - (row.first_seconds ?? 0)) / others;
  return Math.min(row.rest.max_seconds, Math.max(row.rest.min_seconds, mean));
}

/** Field of a row that contains the numbers of a column, by column title. The report omits zeros. */
export const FIELDS: Record<string, string> = {
  Calls: "calls",
  "Self host": "self_cpu_seconds",
  Host: "cpu_seconds",
  "Self device": "self_device_seconds",
  Device: "device_seconds",
  First: "first_seconds",
  "Host memory": "self_cpu_memory_bytes",
  "Device memory": "self_device_memory_bytes",
  FLOPs: "flops",
  Bytes: "moved_bytes",
};

/** Fields that are known only for some rows. */
const PARTIAL = new Set(["flops", "moved_bytes"]);

/** Columns that are computed from other fields. Unknown values are `undefined`. */
const MADE: Record<string, (row: KeyAverage) => number | undefined> = {
  Mean: (row) => meanOfRest(row),
  Min: (row) => row.rest?.min_seconds,
  Max: (row) => row.rest?.max_seconds,
  Allocated: (row) => (row.memory ?? []).reduce((sum, memory) => sum + memory.self_allocated_bytes, 0),
  "FLOP/s": (row) => (row.flops ? row.flops / (row.device_seconds || row.cpu_seconds || NaN) : undefined),
  "B/s": (row) => (row.moved_bytes ? row.moved_bytes / (row.device_seconds || row.cpu_seconds || NaN) : undefined),
  "FLOP/byte": (row) => (row.flops && row.moved_bytes ? row.flops / row.moved_bytes : undefined),
};

/** Stores the exact number in each cell, if the report has it. */
export function setNumbers(table: HTMLTableElement, rows: HTMLTableRowElement[], report: Report | undefined): void {
  const places = (report?.["table_rows"] ?? []) as number[];
  const all = (report?.["key_averages"] as { rows: KeyAverage[] } | undefined)?.rows ?? [];
  const titles = titlesOf(table).map((title) => title.textContent ?? "");
  rows.forEach((row, index) => {
    const source = all[places[index] ?? -1];
    if (source === undefined) return;
    titles.forEach((title, column) => {
      const cell = row.cells[column];
      const field = FIELDS[title];
      // FLOPs and bytes are known only for some ops, and an unknown number must not become 0.
      const value = field === undefined ? MADE[title]?.(source) : (source[field] ?? (PARTIAL.has(field) ? undefined : 0));
      if (cell?.classList.contains("n") && typeof value === "number" && !Number.isNaN(value)) cell.dataset.v = String(value);
    });
  });
}
