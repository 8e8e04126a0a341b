// Grouping of op rows by some of their key columns.

import { element, numberOf, shown, titlesOf } from "./dom";
import { written, type Unit } from "./number";
import { FIELDS } from "./numbers";
import type { Report } from "./tree";

/** Key column, whose values distinguish rows. */
export interface Key {
  title: string;
  column: number;
  /** `true` if the rows in the page are grouped by this column. */
  isOwn: boolean;
}

/** Keys and numbers of a row, indexed by column. */
export interface Source {
  keys: string[];
  numbers: (number | undefined)[];
}

/** Returns the columns by which a table can be grouped. */
export function keysOf(table: HTMLTableElement): Key[] {
  return titlesOf(table)
    .map((title, column) => ({ title: title.textContent ?? "", column, isOwn: !title.hidden, merge: title.dataset.merge }))
    .filter((title) => title.merge === "key")
    .map(({ title, column, isOwn }) => ({ title, column, isOwn }));
}

/** Converts the rows in the page to sources. */
export function ownSources(rows: HTMLTableRowElement[]): Source[] {
  return rows.map((row) => {
    const cells = [...row.cells];
    return {
      keys: cells.map((cell) => cell.textContent ?? ""),
      numbers: cells.map(numberOf),
    };
  });
}

interface FinestRow {
  name: string;
  kind: string;
  is_on_device?: boolean;
  shapes?: string;
  stack?: string[];
  module?: string;
  phase?: string;
  [number: string]: unknown;
}

/** Field of `FinestRow` that contains the numbers of a column, by column title. */
const FINEST: Record<string, string> = { ...FIELDS, Mean: "mean_seconds", Min: "min_seconds", Max: "max_seconds", Allocated: "allocated_bytes" };

/** Row of the table that is already a finest row, except for the keys that are given here. */
interface SameRow {
  row: number;
  shapes?: string;
  module?: string;
  phase?: string;
}

/** Returns the rows of the report grouped by all recorded keys, or an empty list if it has none. `own` contains the rows in the page. */
export function finestSources(report: Report | undefined, titles: HTMLTableCellElement[], own: Source[]): Source[] {
  const columns = titles.map((title) => title.textContent ?? "");
  const same = ((report?.["same_rows"] ?? []) as SameRow[]).flatMap((row) => {
    const source = own[row.row];
    const told: Record<string, string | undefined> = { Shapes: row.shapes, Module: row.module, Phase: row.phase };
    const keys = columns.map((title, column) => shown(told[title] ?? source?.keys[column] ?? ""));
    return source === undefined ? [] : [{ keys, numbers: source.numbers }];
  });
  const rows = (report?.["finest_rows"] ?? []) as FinestRow[];
  const others = rows.map((row) => {
    const keys: Record<string, string> = {
      Name: row.name,
      Shapes: row.shapes ?? "",
      Module: row.module ?? "",
      Phase: row.phase ?? "",
      Stack: (row.stack ?? []).join(" ‹ "),
      Kind: row.is_on_device ? "device" : row.kind,
    };
    return {
      keys: columns.map((title) => shown(keys[title] ?? "")),
      numbers: columns.map((title) => {
        const field = FINEST[title];
        const value = field === undefined ? undefined : row[field];
        // The report omits zeros. For these fields, however, a missing value means that it is unknown.
        if (typeof value === "number") return value;
        return field === undefined || /^(m(in|ax|ean)_|flops$|moved_bytes$)/.test(field) ? undefined : 0;
      }),
    };
  });
  return [...same, ...others];
}

/** Merges the sources that have equal values in the key columns, and returns one row for each group. */
export function group(table: HTMLTableElement, sources: Source[], keys: number[]): HTMLTableRowElement[] {
  const titles = titlesOf(table);
  const groups = new Map<string, Source[]>();
  for (const source of sources) {
    const name = JSON.stringify(keys.map((key) => source.keys[key]));
    const there = groups.get(name);
    if (there) there.push(source);
    else groups.set(name, [source]);
  }
  const merged = [...groups.values()].map((members) => ({ first: members[0], numbers: numbersOf(titles, members) }));
  const largest = titles.map((_, column) => Math.max(0, ...merged.map(({ numbers }) => numbers[column] ?? 0)));
  showKeys(titles, keys);
  return merged.map(({ first, numbers }) => {
    const row = element("tr");
    titles.forEach((title, column) => {
      const name = keys.includes(column) ? (first?.keys[column] ?? "") : undefined;
      row.append(cellOf(title, name, column === keys[0], numbers[column], largest[column] ?? 0));
    });
    return row;
  });
}

/** Shows the chosen key columns and hides the other key columns. */
export function showKeys(titles: HTMLTableCellElement[], keys: number[]): void {
  titles.forEach((title, column) => {
    if (title.dataset.merge === "key") title.hidden = !keys.includes(column);
  });
}

/** Merges the numbers of all members into one row. A number that cannot be merged is `undefined`. */
function numbersOf(titles: HTMLTableCellElement[], members: Source[]): (number | undefined)[] {
  const numbers = titles.map((title, column) => {
    const known = members.map(({ numbers }) => numbers[column]).filter((value) => value !== undefined);
    if (known.length === 0) return undefined;
    switch (title.dataset.merge) {
      case "sum":
        return known.reduce((sum, value) => sum + value, 0);
      case "min":
        return Math.min(...known);
      case "max":
        return Math.max(...known);
      default:
        return undefined;
    }
  });
  return titles.map((title, column) => {
    if (title.dataset.merge !== "mean") return numbers[column];
    // Each mean excludes the first call.
    const calls = Number(title.dataset.of);
    let [sum, weight] = [0, 0];
    for (const member of members) {
      const mean = member.numbers[column];
      if (mean === undefined) continue;
      const others = Math.max(1, (member.numbers[calls] ?? 1) - 1);
      sum += others * mean;
      weight += others;
    }
    return weight === 0 ? undefined : sum / weight;
  });
}

function cellOf(
  title: HTMLTableCellElement,
  name: string | undefined,
  isHead: boolean,
  value: number | undefined,
  largest: number,
): HTMLTableCellElement {
  const unit = (title.dataset.unit ?? "text") as Unit;
  if (name !== undefined && isHead) return element("th", { scope: "row" }, name === "" ? "(none)" : name);
  if (name !== undefined) return element("td", {}, name);
  if (unit === "text" || unit === "markup") return element("td", title.hidden ? { hidden: "" } : {});
  const cell = element("td", { class: "n" });
  if (value === undefined) {
    cell.textContent = "–";
    return cell;
  }
  cell.dataset.v = String(value);
  cell.textContent = written(value, unit);
  if (title.dataset.bar !== undefined && largest > 0) {
    cell.classList.add(`b${Math.round(50 * Math.min(1, Math.max(0, value / largest)))}`);
  }
  return cell;
}
