// Rows of ops put together by one of the columns that they are told apart by.

import { element } from "./dom";
import { written, type Unit } from "./number";

/** A column that tells rows apart. */
export interface Key {
  title: string;
  column: number;
}

/** The titles of the columns. */
export function titlesOf(table: HTMLTableElement): HTMLTableCellElement[] {
  return [...(table.tHead?.rows[0]?.cells ?? [])];
}

/** The columns by which a table can be grouped. */
export function keysOf(table: HTMLTableElement): Key[] {
  return titlesOf(table)
    .map((title, column) => ({ title: title.textContent ?? "", column, merge: title.dataset.merge }))
    .filter((title) => title.merge === "key")
    .map(({ title, column }) => ({ title, column }));
}

/** One row for all that say the same in the key's column. */
export function group(
  table: HTMLTableElement,
  rows: HTMLTableRowElement[],
  key: number,
): HTMLTableRowElement[] {
  const titles = titlesOf(table);
  const groups = new Map<string, HTMLTableRowElement[]>();
  for (const row of rows) {
    const name = row.cells[key]?.textContent ?? "";
    const there = groups.get(name);
    if (there) there.push(row);
    else groups.set(name, [row]);
  }
  const merged = [...groups.values()].map((members) => numbersOf(titles, members));
  const largest = titles.map((_, column) => Math.max(0, ...merged.map((row) => row[column] ?? 0)));
  showKeys(titles, key);
  return [...groups.keys()].map((name, index) => {
    const row = element("tr");
    titles.forEach((title, column) => {
      row.append(cellOf(title, column === key ? name : undefined, merged[index]?.[column], largest[column] ?? 0));
    });
    return row;
  });
}

/** Hides the columns that tell rows apart but this one; without one, shows them all. */
export function showKeys(titles: HTMLTableCellElement[], key?: number): void {
  titles.forEach((title, column) => {
    title.hidden = key !== undefined && column !== key && title.dataset.merge === "key";
  });
}

/** The numbers of all members as one row; none where nothing can be said. */
function numbersOf(titles: HTMLTableCellElement[], members: HTMLTableRowElement[]): (number | undefined)[] {
  const numbers = titles.map((title, column) => {
    const cells = members.map((row) => row.cells[column]?.dataset.v);
    const known = cells.filter((value) => value !== undefined).map(Number);
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
    if (title.dataset.merge !== "ratio") return numbers[column];
    const [part, whole] = (title.dataset.of ?? "").split("/").map(Number);
    const [above, below] = [numbers[part ?? -1], numbers[whole ?? -1]];
    return above === undefined || !below ? undefined : above / below;
  });
}

function cellOf(
  title: HTMLTableCellElement,
  name: string | undefined,
  value: number | undefined,
  largest: number,
): HTMLTableCellElement {
  const unit = (title.dataset.unit ?? "text") as Unit;
  if (name !== undefined) return element("th", { scope: "row" }, name === "" ? "(none)" : name);
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
