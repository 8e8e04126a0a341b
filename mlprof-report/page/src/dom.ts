// Creation of elements without parsing markup, so that text with markup in it stays text.

/** Creates an element with these attributes and children. */
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

/** Returns a name for display on one line, truncated to 200 characters. Control characters and characters that change the text direction are escaped. */
export function shown(name: string): string {
  const longest = 200;
  const whole = [...name.slice(0, 2 * longest)];
  const cut = whole.length > longest ? [...whole.slice(0, longest - 1), "…"] : whole;
  const hidden = /[\p{Cc}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/u;
  const written = (letter: string): string =>
    hidden.test(letter) ? (letter === "\n" ? "\\n" : `\\u{${letter.codePointAt(0)?.toString(16)}}`) : letter;
  return cut.map(written).join("");
}

/** Returns a debounced `then`, which runs when no call has followed for `milliseconds`. */
export function later(then: () => void, milliseconds = 80): () => void {
  let timer: number | undefined;
  return () => {
    window.clearTimeout(timer);
    timer = window.setTimeout(then, milliseconds);
  };
}

/** Returns the number of a cell: the exact value in `data-v` if there is one, otherwise the displayed number. Returns `undefined` if the number is unknown. */
export function numberOf(cell: HTMLTableCellElement | undefined): number | undefined {
  const value = Number.parseFloat(cell?.dataset.v ?? cell?.textContent ?? "");
  return cell?.classList.contains("n") && !Number.isNaN(value) ? value : undefined;
}

/** Returns the header cells of the columns. */
export function titlesOf(table: HTMLTableElement): HTMLTableCellElement[] {
  return [...(table.tHead?.rows[0]?.cells ?? [])];
}
