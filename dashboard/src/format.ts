// SPDX-License-Identifier: Apache-2.0
// Numbers, sizes and times as people read them. All functions are pure; times take `now`.

const UNITS = ["B", "KB", "MB", "GB", "TB", "PB"];
const BINARY = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

function scaled(value: number, step: number, units: readonly string[]): string {
  if (!Number.isFinite(value)) return "–";
  let size = Math.abs(value);
  let unit = 0;
  while (size >= step && unit < units.length - 1) {
    size /= step;
    unit += 1;
  }
  // 999.95 would be shown as "1000 MB": one step further
  if (unit > 0 && unit < units.length - 1 && Math.round(size) >= step) {
    size /= step;
    unit += 1;
  }
  const text = unit === 0 || size >= 100 ? String(Math.round(size)) : String(Number(size.toPrecision(3)));
  return `${value < 0 ? "-" : ""}${text} ${units[unit]}`;
}

/** A size in decimal units, as docker prints them: 4.2 MB. */
export function bytes(value: number | undefined): string {
  return value === undefined ? "–" : scaled(value, 1000, UNITS);
}

/** An amount of memory in binary units: 512 MiB. */
export function memory(value: number | undefined): string {
  return value === undefined ? "–" : scaled(value, 1024, BINARY);
}

/** A rate in decimal units per second. */
export function rate(value: number | undefined): string {
  return value === undefined ? "–" : `${scaled(value, 1000, UNITS)}/s`;
}

/** Per cent with as many digits as are useful: 0.4 %, 12 %, 180 %. */
export function percent(value: number | undefined): string {
  if (value === undefined || !Number.isFinite(value)) return "–";
  if (value === 0) return "0 %";
  if (value < 0.05) return "<0.1 %";
  return value < 9.95 ? `${value.toFixed(1)} %` : `${Math.round(value)} %`;
}

const SPANS: readonly [number, string][] = [
  [31536000, "y"],
  [86400, "d"],
  [3600, "h"],
  [60, "m"],
  [1, "s"],
];

/** A duration in its two largest units: 3d 4h, 12m, 8s. */
export function duration(seconds: number): string {
  let rest = Math.max(0, Math.floor(seconds));
  for (const [index, [size, unit]] of SPANS.entries()) {
    if (rest < size && size !== 1) continue;
    const count = Math.floor(rest / size);
    rest -= count * size;
    const next = SPANS[index + 1];
    const second = next && count < 10 ? Math.floor(rest / next[0]) : 0;
    return second > 0 && next ? `${count}${unit} ${second}${next[1]}` : `${count}${unit}`;
  }
  return "0s";
}

/** Seconds since 1970 of a time in RFC 3339 form; undefined if there is none (or year 1). */
export function seconds(time: string | undefined): number | undefined {
  if (!time) return undefined;
  const value = Date.parse(time) / 1000;
  return Number.isFinite(value) && value > 0 ? value : undefined;
}

/** The time since an event: "4m", "" without a time. */
export function age(time: string | undefined, now: number): string {
  const at = seconds(time);
  return at === undefined ? "" : duration(now - at);
}

/** Date and time in the user's language. */
export function dateTime(time: string | undefined): string {
  const at = seconds(time);
  return at === undefined ? "–" : new Date(at * 1000).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
}

/** Twelve digits of an ID, without the name of the hash. */
export function shortId(id: string | undefined): string {
  return (id ?? "").replace(/^sha256:/, "").slice(0, 12);
}

const QUANTITY: Record<string, number> = {
  "": 1, m: 1e-3, k: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15,
  Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40, Pi: 2 ** 50,
};

/** The number of a Kubernetes quantity such as 4Gi; undefined if it is none. */
export function quantity(text: string | number | undefined): number | undefined {
  const match = /^(\d+(?:\.\d+)?)([A-Za-z]{0,2})$/.exec(String(text ?? ""));
  const factor = match ? QUANTITY[match[2] ?? ""] : undefined;
  return match && factor !== undefined ? Number(match[1]) * factor : undefined;
}

/** "2 containers": the singular form for one. */
export function plural(count: number, one: string, many: string = `${one}s`): string {
  return `${count.toLocaleString("en")} ${count === 1 ? one : many}`;
}

/** Text with everything invisible made visible: control and bidirectional characters. */
export function visible(text: string): string {
  return text.replace(
    /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g,
    (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

/** Whether every word of a filter occurs in one of the texts, in any case. */
export function matches(filter: string, ...texts: (string | undefined)[]): boolean {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return true;
  const haystack = texts.join("\n").toLowerCase();
  return words.every((word) => haystack.includes(word));
}
