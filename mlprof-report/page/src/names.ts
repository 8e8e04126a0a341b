// Long names in tables, shortened in the middle. The whole name stays in the document, so that it can be copied and searched.

import { element } from "./dom";

/** Longest name that is shown whole, in characters. On a narrow screen, names have less space. */
const LONGEST = { wide: 44, narrow: 20 };
/** Length of the end that stays visible, in characters. */
const END = { wide: 18, narrow: 8 };

/** Shortens the names of a row. Cells with markup stay as they are. */
export function shortenNames(row: HTMLTableRowElement): void {
  const size = window.matchMedia("(max-width: 45rem)").matches ? "narrow" : "wide";
  for (const cell of row.querySelectorAll<HTMLElement>("th, td:not(.n, .source)")) {
    const text = cell.firstChild;
    if (cell.childNodes.length !== 1 || !(text instanceof Text)) continue;
    const [start, end] = parts(text.data, LONGEST[size], END[size]);
    if (end === "") continue;
    const name = element("span", { class: "name", tabindex: "0" }, element("span", { class: "start" }, start), end);
    text.replaceWith(name);
  }
}

/** Splits a long name into its start, which can be shortened, and its end. The end of a short name is empty. */
export function parts(name: string, longest: number, end: number): [string, string] {
  const letters = [...name];
  if (letters.length <= longest) return [name, ""];
  // The last word is the best end if it is neither too short nor too long.
  const last = letters.slice(-end);
  const separator = last.findIndex((letter, index) => /[\]./:(<,]/.test(letter) && end - index > end / 2);
  const kept = separator < 0 ? end : end - separator - 1;
  return [letters.slice(0, -kept).join(""), letters.slice(-kept).join("")];
}

/** Shows the whole name in a tooltip while the pointer is on a shortened name. */
export function tellWholeNames(): void {
  document.addEventListener("pointerover", (event) => {
    const name = (event.target as Element).closest<HTMLElement>(".name");
    const start = name?.firstElementChild;
    if (name && start && start.scrollWidth > start.clientWidth) name.title = name.textContent ?? "";
  });
}
