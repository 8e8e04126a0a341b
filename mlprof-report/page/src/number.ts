// Number formats of the tables. Text that scripts add must look like the page's own text.

/** Unit of the numbers in a column. */
export type Unit = "text" | "markup" | "count" | "seconds" | "bytes" | "share" | "change" | "number" | "large";

/** Formats a duration with three significant digits and a unit. */
export function duration(seconds: number): string {
  const size = Math.abs(Number(seconds.toPrecision(3)));
  const units: [number, string][] = [
    [1, "s"],
    [1e-3, "ms"],
    [1e-6, "µs"],
    [0, "ns"],
  ];
  const [least, unit] = size === 0 ? [1, "s"] : (units.find(([least]) => size >= least) ?? [0, "ns"]);
  const scaled = seconds / (least === 0 ? 1e-9 : least);
  const digits = Math.max(1, Math.floor(Math.log10(Math.max(1, Math.abs(Number(scaled.toPrecision(3)))))) + 1);
  return `${scaled.toFixed(Math.max(0, 3 - digits))} ${unit}`;
}

/** Formats a count with commas as thousands separators. */
export function count(value: number): string {
  return Math.round(value).toString().replace(/\B(?=(\d{3})+$)/g, ",");
}

/** Formats a size in bytes in units of powers of 1,024. */
export function bytes(value: number): string {
  const sign = value < 0 ? "-" : "";
  const size = Math.abs(value);
  const units: [number, string][] = [
    [2 ** 30, "GiB"],
    [2 ** 20, "MiB"],
    [2 ** 10, "KiB"],
  ];
  const unit = units.find(([least]) => size >= least);
  return unit ? `${sign}${(size / unit[0]).toFixed(2)} ${unit[1]}` : `${sign}${Math.round(size)} B`;
}

/** Formats a large number with three digits and a letter for the power of 1,000. */
function large(value: number): string {
  const letters = ["", " K", " M", " G", " T", " P"];
  let power = 0;
  while (value >= 999.5 && power + 1 < letters.length) {
    value /= 1e3;
    power += 1;
  }
  const decimals = power === 0 ? 0 : value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return value.toFixed(decimals) + letters[power];
}

/** Formats a number in the unit of its column. */
export function written(value: number, unit: Unit): string {
  switch (unit) {
    case "count":
      return count(value);
    case "seconds":
      return duration(value);
    case "bytes":
      return bytes(value);
    case "share":
      return `${(100 * value).toFixed(1)} %`;
    case "change":
      return `${value < 0 ? "" : "+"}${(100 * value).toFixed(1)} %`;
    case "large":
      return large(value);
    default:
      return value.toFixed(2);
  }
}
