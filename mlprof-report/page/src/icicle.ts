// Icicle chart: a caller is above its callees, and the width of a box is its time or memory. A click zooms to a
// box; the arrow keys move between boxes.

import { element, later } from "./dom";
import type { Place, Tree } from "./tree";

const ROW = 19;
/** Minimum width of a drawn box in pixels. */
const NARROWEST = 1.5;
const DEEPEST_SHOWN = 60;

interface Box {
  place: Place;
  node: HTMLElement;
  depth: number;
  left: number;
  parent: Box | undefined;
  children: Box[];
}

/** Chart of one or several trees in an element of the page. */
export class Icicle {
  private readonly chart = element("div", { class: "chart", role: "tree" });
  private readonly status = element("div", { class: "status", role: "status" });
  private readonly search = element("input", { type: "search", placeholder: "Search" });
  private readonly path = element("nav", { class: "path" });
  private tree: Tree;
  private root: Place;
  /** Path from the root, which is excluded, to the node that fills the chart. */
  private zoomed: Place[] = [];
  private boxes: Box[] = [];
  private width = 0;

  constructor(
    private readonly host: HTMLElement,
    trees: Tree[],
  ) {
    const about = host.dataset.about ?? "";
    this.tree = trees[0] as Tree;
    this.root = whole(this.tree);
    this.search.setAttribute("aria-label", `Search in the chart: ${about}`);
    this.chart.setAttribute("aria-label", about);
    this.path.setAttribute("aria-label", "What fills the chart");
    const tools = element("div", { class: "tools" }, this.search);
    if (trees.length > 1) tools.append(this.choice(trees));
    tools.append(element("span", { class: "quiet" }, about));
    host.append(tools, this.path, this.chart, this.status);
    this.search.addEventListener("input", later(() => this.mark()));
    this.chart.addEventListener("click", (event) => this.zoom(this.boxOf(event.target)?.place));
    this.chart.addEventListener("mouseover", (event) => this.say(this.boxOf(event.target)));
    this.chart.addEventListener("focusin", (event) => this.say(this.boxOf(event.target)));
    this.chart.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(later(() => this.resized())).observe(host);
    this.draw();
  }

  private choice(trees: Tree[]): HTMLElement {
    const select = element("select");
    trees.forEach((tree, index) => select.append(element("option", { value: String(index) }, tree.title)));
    select.addEventListener("change", () => {
      this.tree = trees[Number(select.value)] ?? this.tree;
      this.root = whole(this.tree);
      this.zoomed = [];
      this.draw();
    });
    return element("label", {}, "Show ", select);
  }

  private resized(): void {
    if (this.host.clientWidth !== this.width) this.draw();
  }

  /** Zooms to a node, so that it fills the chart. The root shows the whole tree. */
  private zoom(place: Place | undefined): void {
    if (place === undefined) return;
    const box = this.boxes.find((box) => box.place === place);
    const above: Place[] = [];
    for (let at = box; at; at = at.parent) above.unshift(at.place);
    const around = this.zoomed.slice(0, -1);
    this.zoomed = place === this.root ? [] : [...around, ...above].filter((at) => at !== this.root);
    this.draw();
    this.boxes[0]?.node.focus({ preventScroll: true });
  }

  private draw(): void {
    this.width = this.host.clientWidth;
    this.boxes = [];
    const top = this.zoomed[this.zoomed.length - 1] ?? this.root;
    this.add(top, undefined, 0, 0, this.width);
    const depth = Math.max(...this.boxes.map((box) => box.depth));
    this.chart.style.height = `${(depth + 1) * ROW}px`;
    this.chart.replaceChildren(...this.boxes.map((box) => box.node));
    this.boxes[0]?.node.setAttribute("tabindex", "0");
    this.writePath();
    this.mark();
  }

  private add(place: Place, parent: Box | undefined, depth: number, left: number, width: number): void {
    const share = place.value / this.root.value;
    const words = `${place.name}, ${this.tree.write(place.value)}, ${(100 * share).toFixed(1)} %`;
    const node = element(
      "div",
      { class: `box k${hue(place.name)}`, role: "treeitem", tabindex: "-1", "aria-level": String(depth + 1), "aria-label": words },
      width > 24 ? place.name : "",
    );
    // Positions are percentages, so that the chart also fills a printed page of another width.
    node.style.left = this.part(left);
    node.style.top = `${depth * ROW}px`;
    node.style.width = this.part(Math.max(width - 1, 1));
    const box: Box = { place, node, depth, left, parent, children: [] };
    parent?.children.push(box);
    this.boxes.push(box);
    if (depth >= DEEPEST_SHOWN || place.value <= 0) return;
    let at = left;
    for (const child of place.children) {
      const childWidth = (width * child.value) / place.value;
      if (childWidth >= NARROWEST) this.add(child, box, depth + 1, at, childWidth);
      at += childWidth;
    }
  }

  private part(width: number): string {
    return `${((100 * width) / Math.max(1, this.width)).toFixed(3)}%`;
  }

  private writePath(): void {
    const links = [this.root, ...this.zoomed].map((place, index) => {
      const button = element("button", { type: "button" }, place.name);
      button.addEventListener("click", () => {
        this.zoomed = this.zoomed.slice(0, index);
        this.draw();
        this.boxes[0]?.node.focus({ preventScroll: true });
      });
      return button;
    });
    this.path.hidden = this.zoomed.length === 0;
    this.path.replaceChildren(...links);
  }

  /** Highlights the boxes that match the search. The status line also counts nodes that are too narrow to be drawn. */
  private mark(): void {
    const wanted = this.search.value.trim().toLowerCase();
    const finds = (place: Place): boolean => wanted !== "" && place.name.toLowerCase().includes(wanted);
    this.chart.classList.toggle("searched", wanted !== "");
    for (const box of this.boxes) box.node.classList.toggle("found", finds(box.place));
    if (wanted === "") {
      this.status.textContent = "";
      return;
    }
    let [found, value] = [0, 0];
    const visit = (place: Place, isInside: boolean): void => {
      const isFound = finds(place);
      if (isFound) found += 1;
      if (isFound && !isInside) value += place.value;
      place.children.forEach((child) => visit(child, isInside || isFound));
    };
    visit(this.root, false);
    const share = (100 * value) / this.root.value;
    this.status.textContent = `${found} found: ${this.tree.write(value)}, ${share.toFixed(1)} %`;
  }

  private boxOf(target: EventTarget | null): Box | undefined {
    return this.boxes.find((box) => box.node === target);
  }

  private say(box: Box | undefined): void {
    if (box === undefined) return;
    const { name, value, detail } = box.place;
    const share = ((100 * value) / this.root.value).toFixed(1);
    this.status.replaceChildren(
      element("b", {}, name),
      ` ${this.tree.write(value)}, ${share} % ${detail === "" ? "" : `· ${detail}`}`,
    );
  }

  private key(event: KeyboardEvent): void {
    const box = this.boxOf(event.target);
    if (box === undefined) return;
    const siblings = box.parent?.children ?? [];
    const index = siblings.indexOf(box);
    const targets: Record<string, Box | undefined> = {
      ArrowUp: box.parent,
      ArrowDown: box.children[0],
      ArrowLeft: siblings[index - 1],
      ArrowRight: siblings[index + 1],
      Home: this.boxes[0],
    };
    if (event.key === "Enter" || event.key === " ") this.zoom(box.place);
    else if (event.key === "Escape" || event.key === "Backspace") {
      this.zoomed = this.zoomed.slice(0, -1);
      this.draw();
      this.boxes[0]?.node.focus({ preventScroll: true });
    } else if (event.key in targets) targets[event.key]?.node.focus();
    else return;
    event.preventDefault();
  }
}

/** Returns a root node above all nodes of a tree. */
function whole(tree: Tree): Place {
  const value = tree.places.reduce((sum, place) => sum + place.value, 0);
  return { name: "all", value, detail: "", kind: "all", children: tree.places };
}

/** Returns the colour index of a name, which is always the same. */
function hue(name: string): number {
  let sum = 7;
  for (let index = 0; index < Math.min(name.length, 64); index += 1) {
    sum = (sum * 31 + name.charCodeAt(index)) >>> 0;
  }
  return sum % 6;
}
