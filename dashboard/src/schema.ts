// SPDX-License-Identifier: Apache-2.0
// The settings as the schema of the App describes them: one entry for each value.

import { t } from "./texts.ts";

export interface Schema {
  type?: string;
  description?: string;
  properties?: Record<string, Schema>;
  items?: Schema;
  enum?: unknown[];
  default?: unknown;
  minimum?: number;
  maximum?: number;
  allOf?: Schema[];
  additionalProperties?: unknown;
  "x-kubernetes-validations"?: { rule: string }[];
  "x-kubernetes-int-or-string"?: boolean;
  "x-kubernetes-group-version-kind"?: { kind: string }[];
}

export interface Setting {
  path: string; // below spec: "virtualMachine.cpus"
  section: string;
  description: string;
  kind: "boolean" | "integer" | "enum" | "string" | "lines" | "json";
  options: string[];
  default: unknown;
  immutable: boolean;
}

function kindOf(schema: Schema): Setting["kind"] {
  if (schema.enum) return "enum";
  if (schema.type === "boolean") return "boolean";
  if (schema.type === "integer") return "integer";
  if (schema.type === "array") return schema.items?.type === "string" ? "lines" : "json";
  return schema.type === "object" ? "json" : "string";
}

/** All values below a schema of type object, in its order. */
export function settingsOf(schema: Schema, prefix = "", outerDefault: unknown = undefined): Setting[] {
  const found: Setting[] = [];
  for (const [name, raw] of Object.entries(schema.properties ?? {})) {
    const member: Schema = raw.allOf?.[0] ? { ...raw.allOf[0], ...raw } : raw;
    const path = prefix ? `${prefix}.${name}` : name;
    const fallback = member.default ?? (outerDefault as Record<string, unknown> | undefined)?.[name];
    if (member.properties) found.push(...settingsOf(member, path, fallback));
    else {
      found.push({
        path,
        section: path.includes(".") ? (path.split(".")[0] as string) : t.settings.general,
        description: member.description ?? "",
        kind: kindOf(member),
        options: (member.enum ?? []).map(String),
        default: fallback,
        immutable: (member["x-kubernetes-validations"] ?? []).some(({ rule }) => rule.replaceAll(" ", "") === "self==oldSelf"),
      });
    }
  }
  return found;
}

/** The schema of a kind's spec in an OpenAPI v3 document. */
export function specSchema(document: { components?: { schemas?: Record<string, Schema> } }, kind: string): Schema | undefined {
  const schemas = Object.values(document.components?.schemas ?? {});
  const found = schemas.find((schema) => schema["x-kubernetes-group-version-kind"]?.some((each) => each.kind === kind));
  return found?.properties?.["spec"];
}

/** A value as the text of its input field. */
export function toText(value: unknown, kind: Setting["kind"]): string {
  if (value === undefined || value === null) return "";
  if (kind === "lines") return (value as string[]).join("\n");
  return kind === "json" ? JSON.stringify(value, null, 1) : String(value);
}

/** The value of a text in an input field; null removes it. Throws with a message if it has none. */
export function fromText(text: string, kind: Setting["kind"]): unknown {
  const trimmed = text.trim();
  if (trimmed === "" && kind !== "boolean") return null;
  switch (kind) {
    case "boolean":
      return trimmed === "true";
    case "integer":
      if (!/^-?\d+$/.test(trimmed)) throw new Error(t.settings.notNumber);
      return Number(trimmed);
    case "lines":
      // a certificate is one item of several lines
      return trimmed.includes("-----BEGIN") ? trimmed.split(/\n(?=-----BEGIN)/).map((part) => `${part.trim()}\n`) : trimmed.split("\n").map((line) => line.trim()).filter(Boolean);
    case "json":
      try {
        return JSON.parse(trimmed);
      } catch {
        throw new Error(t.settings.notJson);
      }
    default:
      return trimmed;
  }
}

const UNAFFECTED = ["running", "application.", "downloads.", "idle."];

/** The paths of all values that differ. */
export function differences(settings: readonly Setting[], before: unknown, after: unknown, valueAt: (spec: unknown, path: string) => unknown): string[] {
  return settings.map(({ path }) => path).filter((path) => JSON.stringify(valueAt(before, path) ?? null) !== JSON.stringify(valueAt(after, path) ?? null));
}

/** Whether a change of these settings restarts a running machine. */
export function restarts(paths: readonly string[]): boolean {
  return paths.some((path) => !UNAFFECTED.some((prefix) => path.startsWith(prefix)));
}

/** A message of the API without the name of the webhook that rejected a write. */
export function readable(message: string): string {
  return message.replace(/^admission webhook "[^"]*" denied the request: /, "").replace(/^\S+ "[^"]*" is invalid: /, "");
}
