// Makes the page interactive. All of its content is readable without this script.

import { Icicle } from "./icicle";
import { answerInMemory } from "./memory";
import { answerInStretches } from "./stretches";
import { tellWholeNames } from "./names";
import { bringToLife } from "./strip";
import { enhance } from "./table";
import { treesOf, type Report } from "./tree";
import { unpacked } from "./unpack";

/** Draws each chart when it scrolls into view, because a page may have many. Before printing, all charts are drawn. */
function drawIcicles(reports: Report[]): void {
  const hosts = new Set(document.querySelectorAll<HTMLElement>(".icicle"));
  const draw = (host: HTMLElement): void => {
    seen.unobserve(host);
    if (!hosts.delete(host)) return;
    const report = reports[Number(host.dataset.report)];
    const trees = report ? treesOf(report, host.dataset.tree ?? "") : [];
    if (trees.length > 0) new Icicle(host, trees);
    else host.remove();
  };
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (entry.isIntersecting) draw(entry.target as HTMLElement);
    }
  }, { rootMargin: "400px" });
  hosts.forEach((host) => seen.observe(host));
  window.addEventListener("beforeprint", () => hosts.forEach(draw));
}

function answerInStrips(reports: Report[]): void {
  document.querySelectorAll<HTMLElement>(".strip").forEach((host) => {
    const report = reports[Number(host.dataset.report)];
    if (report === undefined) return;
    if (host.dataset.memory !== undefined) answerInMemory(host, report);
    else if (host.dataset.stretches !== undefined) answerInStretches(host, report);
    else bringToLife(host, report);
  });
}

/** Adds controls to the tables. Tables in closed `details` elements get them when the element is opened. */
function enhanceTables(reports: Report[]): void {
  const tables = document.querySelectorAll<HTMLTableElement>("table.sortable, table.tree");
  tables.forEach((table) => {
    const folded = table.closest("details:not([open])");
    const report = reports[Number(table.dataset.report ?? -1)];
    if (folded === null) enhance(table, report);
    else folded.addEventListener("toggle", () => enhance(table, report), { once: true });
  });
}

/** Makes tables that are wider than the window scrollable with the keyboard. */
function scrollByKeys(): void {
  const watched = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      const isWider = target.scrollWidth > target.clientWidth;
      const table = target.querySelector("table");
      const title = table?.caption?.textContent ?? table?.getAttribute("aria-label") ?? "Table";
      const said = { tabindex: "0", role: "group", "aria-label": title };
      for (const [name, value] of Object.entries(said)) {
        if (isWider) target.setAttribute(name, value);
        else target.removeAttribute(name);
      }
    }
  });
  document.querySelectorAll(".scroll").forEach((scroll) => watched.observe(scroll));
}

/** Makes the links of findings go to the row in the report, if it exists. Otherwise, they go to the report. */
function linkFindings(): void {
  document.querySelectorAll<HTMLAnchorElement>("a[data-row]").forEach((link) => {
    link.addEventListener("click", (event) => {
      const report = document.getElementById(link.hash.slice(1));
      const names = [...(report?.querySelectorAll<HTMLElement>("tbody th") ?? [])];
      const name = names.find((name) => name.textContent === link.textContent);
      if (name === undefined) return;
      event.preventDefault();
      name.closest("details")?.setAttribute("open", "");
      name.closest("tr")?.removeAttribute("hidden");
      name.tabIndex = -1;
      name.scrollIntoView({ block: "center" });
      name.focus({ preventScroll: true });
    });
  });
}

/** Makes the `/` key focus the first search field in view. */
function listenForSearch(): void {
  document.addEventListener("keydown", (event) => {
    const target = event.target as HTMLElement;
    const isTyping = /^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName);
    if (event.key !== "/" || isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
    const searches = [...document.querySelectorAll<HTMLInputElement>("input[type=search]")];
    const inView = searches.find((search) => search.getBoundingClientRect().bottom > 0);
    inView?.focus();
    if (inView) event.preventDefault();
  });
}

const text = document.getElementById("reports")?.textContent ?? "[]";
document.documentElement.classList.add("live");
const reports = unpacked(JSON.parse(text)) as Report[];
enhanceTables(reports);
drawIcicles(reports);
answerInStrips(reports);
linkFindings();
scrollByKeys();
tellWholeNames();
listenForSearch();
window.addEventListener("beforeprint", () => {
  document.querySelectorAll("details").forEach((details) => (details.open = true));
});
