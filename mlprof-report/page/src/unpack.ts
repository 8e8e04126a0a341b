// Conversion of columns back to objects, the inverse of `packed.rs`.

type Row = Record<string, unknown>;

/** Returns a value of the page's JSON, in which columns are replaced by arrays of objects. */
export function unpacked(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(unpacked);
  if (!isObject(value)) return value;
  if (isTable(value)) return rowsOf(value).map((row) => row ?? {});
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, unpacked(inner)]));
}

/** Returns the rows of a table. A missing object is `undefined`. */
function rowsOf(table: Row): (Row | undefined)[] {
  const rows = new Array<Row | undefined>(table["#"] as number).fill(undefined);
  for (const [name, column] of Object.entries(table)) {
    if (name === "#") continue;
    valuesOf(column).forEach((value, index) => {
      if (value !== null && value !== undefined) (rows[index] ??= {})[name] = value;
    });
  }
  return rows;
}

function valuesOf(column: unknown): unknown[] {
  if (Array.isArray(column)) return column.map(unpacked);
  const fields = column as Row;
  if (isTable(fields)) return rowsOf(fields);
  const values = fields["="] as unknown[];
  return (fields["@"] as number[]).map((place) => values[place]);
}

function isObject(value: unknown): value is Row {
  return typeof value === "object" && value !== null;
}

function isTable(fields: Row): boolean {
  return typeof fields["#"] === "number";
}
