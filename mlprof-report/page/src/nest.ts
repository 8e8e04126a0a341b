// Nested rows. In the page, the children of a row directly follow it.

/** Rows of a table and their parents. */
export class Nest {
  private readonly around = new Map<HTMLTableRowElement, HTMLTableRowElement>();

  constructor(private readonly rows: HTMLTableRowElement[]) {
    const open: HTMLTableRowElement[] = [];
    for (const row of rows) {
      const level = levelOf(row);
      open.length = Math.min(open.length, level);
      const parent = open[level - 1];
      if (parent) this.around.set(row, parent);
      open.push(row);
    }
  }

  /** Returns all rows, with siblings sorted by `compare`. */
  sorted(compare: (one: HTMLTableRowElement, other: HTMLTableRowElement) => number): HTMLTableRowElement[] {
    const inside = new Map<HTMLTableRowElement | undefined, HTMLTableRowElement[]>();
    for (const row of this.rows) {
      const beside = inside.get(this.around.get(row));
      if (beside) beside.push(row);
      else inside.set(this.around.get(row), [row]);
    }
    const all: HTMLTableRowElement[] = [];
    const next = [...(inside.get(undefined) ?? [])].sort(compare).reverse();
    for (let row = next.pop(); row !== undefined; row = next.pop()) {
      all.push(row);
      next.push(...[...(inside.get(row) ?? [])].sort(compare).reverse());
    }
    return all;
  }

  /** Returns the rows that are inside no other one of them. */
  outermost(rows: Set<HTMLTableRowElement>): HTMLTableRowElement[] {
    return [...rows].filter((row) => {
      const around = this.around.get(row);
      return around === undefined || !rows.has(around);
    });
  }

  /** Returns these rows and all their ancestors. */
  withAround(rows: Iterable<HTMLTableRowElement>): Set<HTMLTableRowElement> {
    const all = new Set<HTMLTableRowElement>();
    for (const row of rows) {
      for (let at: HTMLTableRowElement | undefined = row; at && !all.has(at); at = this.around.get(at)) all.add(at);
    }
    return all;
  }
}

/** Returns the nesting level of a row, which is in its class. */
function levelOf(row: HTMLTableRowElement): number {
  return Number(/\bd(\d+)\b/.exec(row.cells[0]?.className ?? "")?.[1] ?? 0);
}
