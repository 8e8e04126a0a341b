// Small rows of a table, folded into one row that can be opened. Its numbers are the sums of the folded rows.

import { element, numberOf, titlesOf } from "./dom";
import { count, written, type Unit } from "./number";

/** Least number of rows to fold. */
const FEWEST = 3;

/** Columns that decide which rows are small, with the number below which a row is small. */
type Limits = { column: number; least: number }[];

/** Returns the limits that the page sets for a table. Without limits, no row is small. */
function limitsOf(table: HTMLTableElement): Limits {
  return titlesOf(table).flatMap((title, column) =>
    title.dataset.small === undefined ? [] : [{ column, least: Number(title.dataset.small) }],
  );
}

/** Returns the rows that are small in every column with a limit. `withAround` adds rows that contain others. */
export function smallRows(
  table: HTMLTableElement,
  rows: HTMLTableRowElement[],
  withAround: (rows: HTMLTableRowElement[]) => Set<HTMLTableRowElement>,
): Set<HTMLTableRowElement> {
  const limits = limitsOf(table);
  if (limits.length === 0) return new Set();
  const isSmall = (row: HTMLTableRowElement): boolean =>
    limits.every(({ column, least }) => Math.abs(numberOf(row.cells[column]) ?? 0) < least);
  const large = withAround(rows.filter((row) => !isSmall(row)));
  const small = rows.filter((row) => !large.has(row));
  // A table of small rows only has nothing else to show.
  return new Set(small.length < FEWEST || large.size === 0 ? [] : small);
}

/** Row that stands for the small rows of a table. */
export class Fold {
  readonly row = element("tr", { class: "fold" });
  isOpen = false;
  private readonly button = element("button", { type: "button", "aria-expanded": "false" });

  constructor(private readonly table: HTMLTableElement, changed: () => void) {
    this.button.addEventListener("click", () => {
      this.isOpen = !this.isOpen;
      changed();
    });
  }

  /** Shows the sums of these rows, or only their number while they are visible. `tops` are those inside no other one. */
  show(small: Set<HTMLTableRowElement>, tops: HTMLTableRowElement[]): void {
    if (small.size === 0) return;
    this.button.textContent = `${count(small.size)} rows below 0.1 %`;
    this.button.setAttribute("aria-expanded", String(this.isOpen));
    const titles = titlesOf(this.table);
    const first = titles.findIndex((title) => !title.hidden);
    const cells = titles.map((title, column) => {
      if (column === first) return element("th", { scope: "row" }, this.button);
      const unit = (title.dataset.unit ?? "text") as Unit;
      const cell = element("td", unit === "text" || unit === "markup" ? {} : { class: "n" });
      if (title.hidden) cell.hidden = true;
      if (title.dataset.merge !== "sum" || this.isOpen) return cell;
      // Columns that include nested rows, such as the total, must not count a nested row twice.
      const own = /^(Self|Calls)/.test(title.textContent ?? "") ? [...small] : tops;
      const known = own.map((row) => numberOf(row.cells[column])).filter((value) => value !== undefined);
      if (known.length > 0) cell.textContent = written(known.reduce((sum, value) => sum + value, 0), unit);
      return cell;
    });
    this.row.replaceChildren(...cells);
  }
}
