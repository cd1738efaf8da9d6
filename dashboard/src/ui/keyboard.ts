// SPDX-License-Identifier: Apache-2.0
// Keys of the whole page. They have no effect in text fields, terminals and dialogs.

import { signal } from "@preact/signals";
import { go } from "../router.ts";

export interface TableKeys {
  move(step: number, extend?: boolean): void;
  open(): void;
  select(): unknown;
  clear(): void;
}

/** The table on screen. */
export const activeTable: { current: TableKeys | undefined } = { current: undefined };

export const paletteOpen = signal(false);
export const helpOpen = signal(false);

const SCREENS: Record<string, string> = { h: "home", c: "containers", i: "images", v: "volumes", n: "networks", p: "ports", m: "machines", t: "snapshots", k: "kubernetes", s: "settings", d: "diagnostics", a: "activity", l: "logs" };

let pending = 0; // when "g" was pressed

function typing(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  if (target instanceof HTMLInputElement && target.type === "checkbox") return false;
  return target.matches("input, textarea, select, [contenteditable]") || target.closest(".xterm, dialog, [role=menu]") !== null;
}

function pressed(event: KeyboardEvent): boolean {
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
    paletteOpen.value = !paletteOpen.value;
    return true;
  }
  if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target)) return false;
  if (Date.now() - pending < 1000 && event.key in SCREENS) {
    pending = 0;
    go(SCREENS[event.key] as string);
    return true;
  }
  const table = activeTable.current;
  switch (event.key) {
    case "/": {
      const field = document.querySelector<HTMLInputElement>("[data-filter]");
      field?.focus();
      field?.select();
      return field !== null;
    }
    case "?":
      helpOpen.value = true;
      return true;
    case "g":
      pending = Date.now();
      return true;
    case "j":
    case "ArrowDown":
      table?.move(1, event.shiftKey);
      return table !== undefined;
    case "J":
      table?.move(1, true);
      return table !== undefined;
    case "k":
    case "ArrowUp":
      table?.move(-1, event.shiftKey);
      return table !== undefined;
    case "K":
      table?.move(-1, true);
      return table !== undefined;
    case "x":
      table?.select();
      return table !== undefined;
    case "Enter":
      if (event.target instanceof HTMLElement && event.target.closest("a, button")) return false;
      table?.open();
      return table !== undefined;
    case "Escape":
      table?.clear();
      return false;
  }
  return false;
}

export function startKeyboard(): void {
  document.addEventListener("keydown", (event) => {
    if (pressed(event)) event.preventDefault();
  });
}
