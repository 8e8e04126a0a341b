// Elements, made without markup: text stays text whatever is in it.

/** An element with these attributes and children. */
export function element<Name extends keyof HTMLElementTagNameMap>(
  name: Name,
  attributes: Record<string, string> = {},
  ...children: (Node | string)[]
): HTMLElementTagNameMap[Name] {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

/** A name on one line, not too long; what turns the direction of writing around is shown, not obeyed. */
export function shown(name: string): string {
  const longest = 200;
  const whole = [...name.slice(0, 2 * longest)];
  const cut = whole.length > longest ? [...whole.slice(0, longest - 1), "…"] : whole;
  const hidden = /[\p{Cc}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/u;
  const written = (letter: string): string =>
    hidden.test(letter) ? (letter === "\n" ? "\\n" : `\\u{${letter.codePointAt(0)?.toString(16)}}`) : letter;
  return cut.map(written).join("");
}

/** Lets the names in an element break between their words where they are too long for a line, and nowhere else: it looks the same, and its text is. */
export function breakable(cell: HTMLElement): void {
  const texts = [...cell.childNodes].filter((node): node is Text => node instanceof Text);
  for (const text of texts) {
    const words = text.data.match(/[^\]._/,(<:]*(?:::|[\]._/,(<:]|$)/g)?.filter((word) => word !== "") ?? [];
    text.replaceWith(...words.flatMap((word, index) => (index === 0 ? [word] : [element("wbr"), word])));
  }
}

/** Calls `then` when nothing more has happened for a moment. */
export function later(then: () => void, milliseconds = 80): () => void {
  let timer: number | undefined;
  return () => {
    window.clearTimeout(timer);
    timer = window.setTimeout(then, milliseconds);
  };
}

/** The number of a cell: what it was written from, or what stands there where that says all; none where it is not known. */
export function numberOf(cell: HTMLTableCellElement | undefined): number | undefined {
  const value = Number.parseFloat(cell?.dataset.v ?? cell?.textContent ?? "");
  return cell?.classList.contains("n") && !Number.isNaN(value) ? value : undefined;
}

/** The titles of the columns. */
export function titlesOf(table: HTMLTableElement): HTMLTableCellElement[] {
  return [...(table.tHead?.rows[0]?.cells ?? [])];
}
