// Cursor of a chart in the page: shows the item under the pointer, or the item selected with the arrow keys.

import { element } from "./dom";

/** Items of a chart, from left to right. */
export interface Places {
  count: number;
  /** Returns the index of the item at `share` of the width, from 0 to 1. */
  at: (share: number) => number;
  /** Returns the left edge and the width of an item, in the coordinates of the chart. */
  span: (index: number) => [number, number];
  /** Returns the description of an item for the status line. */
  say: (index: number) => (Node | string)[];
  /** Returns `true` if Page Up and Page Down stop at the item. */
  standsOut: (index: number) => boolean;
}

/** Makes the chart respond to pointer and keyboard events. */
export function follow(host: HTMLElement, svg: SVGSVGElement, places: Places): void {
  const status = element("div", { class: "status", role: "status" });
  const cursor = document.createElementNS(svg.namespaceURI, "rect") as SVGRectElement;
  cursor.setAttribute("class", "cursor");
  cursor.setAttribute("height", "100%");
  cursor.setAttribute("visibility", "hidden");
  svg.append(cursor);
  host.append(status);
  svg.setAttribute("tabindex", "0");
  let at = -1;
  const go = (index: number): void => {
    if (index < 0 || index >= places.count) return;
    at = index;
    const [left, width] = places.span(index);
    cursor.setAttribute("x", String(left));
    cursor.setAttribute("width", String(Math.max(1, width)));
    cursor.setAttribute("visibility", "visible");
    status.replaceChildren(...places.say(index));
  };
  const under = (event: MouseEvent): number => {
    const box = svg.getBoundingClientRect();
    const index = places.at((event.clientX - box.left) / box.width);
    return Math.min(places.count - 1, Math.max(0, index));
  };
  svg.addEventListener("mousemove", (event) => go(under(event)));
  svg.addEventListener("click", (event) => go(under(event)));
  const all = Array.from({ length: places.count }, (_, index) => index);
  svg.addEventListener("keydown", (event) => {
    const targets: Record<string, () => number> = {
      ArrowLeft: () => at - 1,
      ArrowRight: () => at + 1,
      Home: () => 0,
      End: () => places.count - 1,
      PageDown: () => all.findIndex((index) => index > at && places.standsOut(index)),
      PageUp: () => all.map((index) => index < at && places.standsOut(index)).lastIndexOf(true),
    };
    const target = targets[event.key];
    if (target === undefined) return;
    event.preventDefault();
    go(target());
  });
}
