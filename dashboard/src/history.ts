// SPDX-License-Identifier: Apache-2.0
// The recorded changes of the settings, and how one is undone.

import type { ConfigMap } from "./api/objects.ts";

export interface ChangedField {
  field: string;
  old: unknown;
  new: unknown;
  masked?: string[];
  wasDefault?: boolean;
}

export interface Change {
  id: string;
  time: string;
  user: string;
  manager: string;
  operation: "create" | "update";
  fields: ChangedField[];
}

/** All recorded changes, the newest first. */
export function changesOf(config: ConfigMap | undefined): Change[] {
  try {
    const parsed = JSON.parse(config?.data?.["changes"] ?? "[]") as Change[];
    return Array.isArray(parsed) ? parsed.reverse() : [];
  } catch {
    return [];
  }
}

/** A setting that a deployment profile locks. */
export interface Lock {
  value: unknown;
  source: string; // file and line
}

/** The locked settings by their path, from the copy of the profile. */
export function locksOf(config: ConfigMap | undefined): Record<string, Lock> {
  try {
    return JSON.parse(config?.data?.["locks"] ?? "{}") as Record<string, Lock>;
  } catch {
    return {};
  }
}

export function valueAt(spec: unknown, path: string): unknown {
  return path.split(".").reduce<unknown>((value, member) => (value && typeof value === "object" ? (value as Record<string, unknown>)[member] : undefined), spec);
}

/** An object with one value at a path. */
export function nested(path: string, value: unknown): Record<string, unknown> {
  return path.split(".").reduceRight<unknown>((inner, member) => ({ [member]: inner }), value) as Record<string, unknown>;
}

/** Merge patches into one. */
export function merged(...parts: Record<string, unknown>[]): Record<string, unknown> {
  const result: Record<string, unknown> = {};
  for (const part of parts) {
    for (const [key, value] of Object.entries(part)) {
      const before = result[key];
      const both = isPlain(before) && isPlain(value);
      result[key] = both ? merged(before, value) : value;
    }
  }
  return result;
}

function isPlain(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export function equal(a: unknown, b: unknown): boolean {
  return JSON.stringify(a ?? null) === JSON.stringify(b ?? null);
}

/** The merge patch of the spec that takes a change back; why not, as a word, if it cannot be. */
export function undoOf(change: Change, spec: unknown): Record<string, unknown> | "masked" | "changed" {
  if (change.operation === "create" || change.fields.some((field) => field.masked?.includes("old"))) return "masked";
  const differs = change.fields.some((field) => !field.masked?.includes("new") && !equal(valueAt(spec, field.field), field.new));
  if (differs) return "changed";
  return merged(...change.fields.map((field) => nested(field.field, field.wasDefault ? null : (field.old ?? null))));
}

/** A value as a user writes it. */
export function show(value: unknown): string {
  if (value === undefined || value === null) return "";
  return typeof value === "string" ? value : JSON.stringify(value);
}
