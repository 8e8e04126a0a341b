// Numbers as the tables have them: the page's own text and what scripts add must look alike.

/** What the numbers of a column are. */
export type Unit = "text" | "markup" | "count" | "seconds" | "bytes" | "share" | "change" | "number" | "large";

/** Three significant digits and a unit. */
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

/** Thousands set apart by commas. */
export function count(value: number): string {
  return Math.round(value).toString().replace(/\B(?=(\d{3})+$)/g, ",");
}

/** Units of 1,024. */
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

/** Three digits and a letter for each thousand. */
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

/** A number in the unit of its column. */
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
