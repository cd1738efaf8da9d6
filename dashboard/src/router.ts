// SPDX-License-Identifier: Apache-2.0
// The address of a screen is in the fragment: "#/containers/<id>/logs". Nothing of it is sent to
// the daemon, and names of objects need no rules for paths.

import { signal } from "@preact/signals";

export interface Route {
  readonly screen: string;
  readonly parts: readonly string[];
}

export function parse(hash: string): Route {
  const parts = hash.replace(/^#\/?/, "").split("/").filter(Boolean).map(decode);
  return { screen: parts[0] ?? "home", parts: parts.slice(1) };
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export function link(screen: string, ...parts: string[]): string {
  return `#/${[screen, ...parts].map(encodeURIComponent).join("/")}`;
}

const initial = typeof location === "undefined" ? "" : location.hash;
export const route = signal<Route>(parse(initial));

export function go(screen: string, ...parts: string[]): void {
  location.hash = link(screen, ...parts);
}

if (typeof window !== "undefined") {
  window.addEventListener("hashchange", () => (route.value = parse(location.hash)));
}
