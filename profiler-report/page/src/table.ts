// Tables that are sorted by a click on a title, searched, grouped, and shown in part at first.

import { element, later } from "./dom";
import { group, keysOf, showKeys, titlesOf } from "./group";
import { count } from "./number";

/** So many rows are shown before somebody asks for more. */
const SHOWN = 40;

interface View {
  table: HTMLTableElement;
  body: HTMLTableSectionElement;
  /** Those of the page, or of a grouping. */
  rows: HTMLTableRowElement[];
  search: HTMLInputElement;
  more: HTMLButtonElement;
  status: HTMLElement;
  showsAll: boolean;
}

/** Gives a table of the page its controls. */
export function enhance(table: HTMLTableElement): void {
  const body = table.tBodies[0];
  const scroll = table.parentElement;
  if (body === undefined || scroll === null) return;
  const title = table.caption?.textContent ?? "the table";
  const view: View = {
    table,
    body,
    rows: [...body.rows],
    search: element("input", { type: "search", placeholder: "Search", "aria-label": `Search in: ${title}` }),
    more: element("button", { type: "button", class: "more" }),
    status: element("span", { class: "quiet", role: "status" }),
    showsAll: false,
  };
  const tools = element("div", { class: "tools" });
  const isSmall = view.rows.length <= 6;
  if (!isSmall) tools.append(view.search);
  const groupings = table.classList.contains("groupable") ? groupingChoice(view) : undefined;
  if (groupings) tools.append(groupings);
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
    show(view);
  });
  show(view);
}

/** Shows the rows that match, in their order, at most so many. */
function show(view: View): void {
  const words = view.search.value.toLowerCase().split(/\s+/).filter((word) => word !== "");
  const matching = new Set(view.rows.filter((row) => matches(row, words)));
  let left = view.showsAll ? Infinity : SHOWN;
  for (const row of view.rows) {
    row.hidden = !matching.has(row) || left <= 0;
    if (matching.has(row)) left -= 1;
  }
  const hidden = matching.size - SHOWN;
  view.more.hidden = hidden <= 0;
  view.more.textContent = view.showsAll ? "Show fewer" : `Show ${count(hidden)} more`;
  view.more.setAttribute("aria-expanded", String(view.showsAll));
  const all = count(view.rows.length);
  view.status.textContent = words.length > 0 ? `${count(matching.size)} of ${all} rows` : `${all} rows`;
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

/** By the column that was chosen last. */
function sortedColumn(table: HTMLTableElement): { column: number; goesUp: boolean } | undefined {
  const titles = titlesOf(table);
  const column = titles.findIndex((title) => title.hasAttribute("aria-sort"));
  const goesUp = titles[column]?.getAttribute("aria-sort") === "ascending";
  return column < 0 ? undefined : { column, goesUp };
}

function sort(view: View, column: number, isText: boolean, goesUp: boolean): void {
  const sign = goesUp ? 1 : -1;
  const keyed = view.rows.map((row) => ({ row, cell: row.cells[column] }));
  if (isText) {
    const order = new Intl.Collator("en", { numeric: true });
    keyed.sort((a, b) => sign * order.compare(a.cell?.textContent ?? "", b.cell?.textContent ?? ""));
  } else {
    // What is not known comes last, whatever the direction.
    const number = (cell: HTMLTableCellElement | undefined): number =>
      cell?.dataset.v === undefined ? -sign * Infinity : Number(cell.dataset.v);
    keyed.sort((a, b) => {
      const [one, other] = [number(a.cell), number(b.cell)];
      return one === other ? 0 : sign * (one - other);
    });
  }
  view.rows = keyed.map(({ row }) => row);
  view.body.append(...view.rows);
  show(view);
}

/** What rows can be told apart by, where there is more than the name. */
function groupingChoice(view: View): HTMLElement | undefined {
  const keys = keysOf(view.table);
  if (keys.length < 2) return undefined;
  const own = view.rows;
  const choice = element("select");
  choice.append(element("option", { value: "" }, keys.map((key) => key.title).join(", ")));
  for (const key of keys) choice.append(element("option", { value: String(key.column) }, key.title));
  choice.addEventListener("change", () => {
    if (choice.value === "") showKeys(titlesOf(view.table));
    view.rows = choice.value === "" ? own : group(view.table, own, Number(choice.value));
    view.body.replaceChildren(...view.rows);
    const sorted = sortedColumn(view.table);
    const title = sorted && view.table.tHead?.rows[0]?.cells[sorted.column];
    if (sorted && title) sort(view, sorted.column, title.dataset.unit === "text", sorted.goesUp);
    show(view);
  });
  return element("label", { class: "grouping" }, "Group by ", choice);
}
