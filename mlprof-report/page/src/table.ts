// Tables with controls: sorting by a click on a header, search, grouping, and a limit on the displayed rows.

import { element, later, numberOf, titlesOf } from "./dom";
import { Fold, smallRows } from "./fold";
import { finestSources, group, keysOf, ownSources, showKeys } from "./group";
import { shortenNames } from "./names";
import { Nest } from "./nest";
import { count } from "./number";
import { setNumbers } from "./numbers";
import type { Report } from "./tree";

/** Number of rows that are shown before the user requests more. */
const SHOWN = 40;

interface View {
  table: HTMLTableElement;
  body: HTMLTableSectionElement;
  /** Rows of the page, or of a grouping. */
  rows: HTMLTableRowElement[];
  search: HTMLInputElement;
  more: HTMLButtonElement;
  status: HTMLElement;
  showsAll: boolean;
  /** Row that stands for the small rows. */
  fold: Fold;
  /** Nesting of the rows, if the page marks the table as nested. */
  nest: Nest | undefined;
  /** `true` while the rows are shown nested. */
  isNested: boolean;
}

/** Adds controls to a table of the page. `report` is the report that its rows belong to, if the table names one. */
export function enhance(table: HTMLTableElement, report?: Report): void {
  const body = table.tBodies[0];
  const scroll = table.parentElement;
  if (body === undefined || scroll === null) return;
  for (const row of body.rows) shortenNames(row);
  if (table.classList.contains("groupable")) setNumbers(table, [...body.rows], report);
  const title = table.caption?.textContent ?? "the table";
  const view: View = {
    table,
    body,
    rows: [...body.rows],
    search: element("input", { type: "search", placeholder: "Search", "aria-label": `Search in: ${title}` }),
    more: element("button", { type: "button", class: "more" }),
    status: element("span", { class: "quiet", role: "status" }),
    showsAll: false,
    fold: new Fold(table, () => show(view)),
    nest: table.classList.contains("nested") ? new Nest([...body.rows]) : undefined,
    isNested: table.classList.contains("nested"),
  };
  const tools = element("div", { class: "tools" });
  const isSmall = view.rows.length <= 6;
  if (!isSmall) tools.append(view.search);
  const groupings = table.classList.contains("groupable") ? groupingChoice(view, report) : undefined;
  if (groupings) tools.append(groupings);
  if (view.nest) tools.append(nestingChoice(view));
  tools.append(view.status);
  if (tools.childElementCount > 1) scroll.before(tools);
  scroll.after(view.more);
  view.search.addEventListener("input", later(() => show(view)));
  view.more.addEventListener("click", () => {
    view.showsAll = !view.showsAll;
    show(view);
  });
  if (table.classList.contains("sortable")) makeSortable(view);
  window.addEventListener("beforeprint", () => {
    view.showsAll = true;
    view.fold.isOpen = true;
    show(view);
  });
  show(view);
}

/** Shows the rows that match the search, in their current order, up to the limit. */
function show(view: View): void {
  const words = view.search.value.toLowerCase().split(/\s+/).filter((word) => word !== "");
  const matching = view.rows.filter((row) => matches(row, words));
  const around = (rows: HTMLTableRowElement[]): Set<HTMLTableRowElement> =>
    view.nest && view.isNested ? view.nest.withAround(rows) : new Set(rows);
  const shown = around(matching);
  // A search finds small rows, too.
  const small = words.length > 0 ? new Set<HTMLTableRowElement>() : smallRows(view.table, view.rows, around);
  view.fold.show(small, view.nest ? view.nest.outermost(small) : [...small]);
  if (small.size > 0) view.body.append(view.fold.row);
  else view.fold.row.remove();
  if (!view.fold.isOpen) small.forEach((row) => shown.delete(row));
  let left = view.showsAll ? Infinity : SHOWN;
  for (const row of view.rows) {
    row.hidden = !shown.has(row) || left <= 0;
    if (shown.has(row)) left -= 1;
  }
  const hidden = shown.size - SHOWN;
  view.more.hidden = hidden <= 0;
  view.more.textContent = view.showsAll ? "Show fewer" : `Show ${count(hidden)} more`;
  view.more.setAttribute("aria-expanded", String(view.showsAll));
  const all = count(view.rows.length);
  view.status.textContent = words.length > 0 ? `${count(matching.length)} of ${all} rows` : `${all} rows`;
}

function matches(row: HTMLTableRowElement, words: string[]): boolean {
  if (words.length === 0) return true;
  const text = (row.textContent ?? "").toLowerCase();
  return words.every((word) => text.includes(word));
}

function makeSortable(view: View): void {
  const titles = titlesOf(view.table);
  titles.forEach((title, column) => {
    if (title.dataset.unit === "markup") return;
    const button = element("button", { type: "button" }, ...title.childNodes);
    title.replaceChildren(button);
    button.addEventListener("click", () => {
      const isText = title.dataset.unit === "text";
      const before = title.getAttribute("aria-sort");
      const goesUp = before === null ? isText : before === "descending";
      for (const other of titles) other.removeAttribute("aria-sort");
      title.setAttribute("aria-sort", goesUp ? "ascending" : "descending");
      sort(view, column, isText, goesUp);
    });
  });
}

/** Returns the column that was last chosen for sorting, and the direction. */
function sortedColumn(table: HTMLTableElement): { column: number; goesUp: boolean } | undefined {
  const titles = titlesOf(table);
  const column = titles.findIndex((title) => title.hasAttribute("aria-sort"));
  const goesUp = titles[column]?.getAttribute("aria-sort") === "ascending";
  return column < 0 ? undefined : { column, goesUp };
}

function sort(view: View, column: number, isText: boolean, goesUp: boolean): void {
  const compare = comparison(column, isText, goesUp);
  view.rows = view.nest && view.isNested ? view.nest.sorted(compare) : [...view.rows].sort(compare);
  view.body.append(...view.rows);
  show(view);
}

function comparison(
  column: number,
  isText: boolean,
  goesUp: boolean,
): (one: HTMLTableRowElement, other: HTMLTableRowElement) => number {
  const sign = goesUp ? 1 : -1;
  if (isText) {
    const order = new Intl.Collator("en", { numeric: true });
    const text = (row: HTMLTableRowElement): string => row.cells[column]?.textContent ?? "";
    return (one, other) => sign * order.compare(text(one), text(other));
  }
  // Unknown values come last in both directions.
  const number = (row: HTMLTableRowElement): number => numberOf(row.cells[column]) ?? -sign * Infinity;
  return (one, other) => {
    const [a, b] = [number(one), number(other)];
    return a === b ? 0 : sign * (a - b);
  };
}

/** Sorts again by the current column and direction. */
function sortAgain(view: View): void {
  const sorted = sortedColumn(view.table);
  const title = sorted && titlesOf(view.table)[sorted.column];
  if (sorted && title) sort(view, sorted.column, title.dataset.unit === "text", sorted.goesUp);
  else show(view);
}

/** Creates the checkbox that switches between nested and flat rows. */
function nestingChoice(view: View): HTMLElement {
  const choice = element("input", { type: "checkbox" });
  choice.checked = true;
  choice.addEventListener("change", () => {
    view.isNested = choice.checked;
    view.table.classList.toggle("flat", !choice.checked);
    sortAgain(view);
  });
  return element("label", {}, choice, " Nested");
}

/** Creates the checkboxes for the columns to group by, if there are key columns in addition to the name. */
function groupingChoice(view: View, report: Report | undefined): HTMLElement | undefined {
  const keys = keysOf(view.table);
  if (keys.length < 2) return undefined;
  const own = view.rows;
  const titles = titlesOf(view.table);
  const finest = finestSources(report, titles, ownSources(own));
  const boxes = keys.map((key) => {
    const box = element("input", { type: "checkbox" });
    box.checked = key.isOwn;
    return { key, box };
  });
  const change = (): void => {
    const chosen = boxes.filter(({ box }) => box.checked).map(({ key }) => key);
    const isOwn = keys.every((key) => chosen.includes(key) === key.isOwn);
    const columns = chosen.map((key) => key.column);
    if (isOwn) {
      showKeys(titles, columns);
      view.rows = own;
    } else {
      // The rows in the page have the most exact totals if a row contains others of the same name, so they are preferred.
      const needsFinest = chosen.some((key) => !key.isOwn);
      view.rows = group(view.table, needsFinest ? finest : ownSources(own), columns);
    }
    view.body.replaceChildren(...view.rows);
    view.rows.forEach(shortenNames);
    sortAgain(view);
  };
  for (const { box } of boxes) box.addEventListener("change", change);
  return element(
    "fieldset",
    { class: "grouping" },
    element("legend", {}, "Group by"),
    ...boxes.map(({ key, box }) => element("label", {}, box, ` ${key.title}`)),
  );
}
