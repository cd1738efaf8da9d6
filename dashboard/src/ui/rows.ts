// SPDX-License-Identifier: Apache-2.0
// The rows of a table without their looks: filter, order, groups, and which of them are visible.

import { matches } from "../format.ts";

export interface Group {
  key: string;
  title: string;
  /** Groups with a smaller number come first. */
  order: number;
}

export type Value = string | number | undefined;

export type Entry<T> = { row: T; key: string; group?: undefined } | { group: Group; count: number; key: string; row?: undefined };

export interface Arrangement<T> {
  rows: readonly T[];
  keyOf: (row: T) => string;
  nameOf: (row: T) => string;
  filter: string;
  textOf: (row: T) => readonly (string | undefined)[];
  valueOf: (row: T) => Value;
  descending: boolean;
  groupOf?: ((row: T) => Group) | undefined;
  collapsed: ReadonlySet<string>;
}

const collator = new Intl.Collator(undefined, { numeric: true, sensitivity: "base" });

/** Order of two values: numbers by size, texts as people sort them, missing ones last. */
export function compare(a: Value, b: Value): number {
  if (a === undefined || b === undefined) return a === b ? 0 : a === undefined ? 1 : -1;
  if (typeof a === "number" && typeof b === "number") return a - b;
  return collator.compare(String(a), String(b));
}

/** Filter, sort and group the rows. Equal rows are sorted by name. */
export function arrange<T>(a: Arrangement<T>): Entry<T>[] {
  const found = a.rows.filter((row) => !a.filter || matches(a.filter, ...a.textOf(row)));
  const decorated = found.map((row) => ({ row, key: a.keyOf(row), name: a.nameOf(row), value: a.valueOf(row) }));
  const sign = a.descending ? -1 : 1;
  decorated.sort((x, y) => sign * compare(x.value, y.value) || compare(x.name, y.name) || (x.key < y.key ? -1 : 1));
  if (!a.groupOf) return decorated.map(({ row, key }) => ({ row, key }));
  const groups = new Map<string, { group: Group; rows: { row: T; key: string }[] }>();
  for (const { row, key } of decorated) {
    const group = a.groupOf(row);
    const known = groups.get(group.key);
    if (known) known.rows.push({ row, key });
    else groups.set(group.key, { group, rows: [{ row, key }] });
  }
  const sorted = [...groups.values()].sort((x, y) => x.group.order - y.group.order || compare(x.group.title, y.group.title));
  const entries: Entry<T>[] = [];
  for (const { group, rows } of sorted) {
    if (group.title) entries.push({ group, count: rows.length, key: `group ${group.key}` });
    if (!a.collapsed.has(group.key)) entries.push(...rows);
  }
  return entries;
}

/** The first and the last + 1 entry to render for a scroll position. */
export function windowOf(count: number, rowHeight: number, scrollTop: number, height: number, overscan = 8): [number, number] {
  const first = Math.max(0, Math.min(count, Math.floor(scrollTop / rowHeight)) - overscan);
  const last = Math.min(count, Math.ceil((scrollTop + height) / rowHeight) + overscan);
  return [first, Math.max(first, last)];
}
