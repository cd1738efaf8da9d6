// SPDX-License-Identifier: Apache-2.0
// The menu of a row: one at a time, beside the pointer or below its button.

import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { Icon, type IconName } from "./icons.tsx";
import { report } from "./toasts.tsx";

export interface MenuItem {
  title: string;
  icon?: IconName;
  danger?: boolean;
  disabled?: boolean;
  run: () => unknown;
}

interface Opened {
  x: number;
  y: number;
  items: readonly MenuItem[];
  back: HTMLElement | null;
}

const opened = signal<Opened | undefined>(undefined);

export function openMenu(at: MouseEvent | HTMLElement, items: readonly MenuItem[]): void {
  const back = document.activeElement instanceof HTMLElement ? document.activeElement : null;
  if (at instanceof HTMLElement) {
    const box = at.getBoundingClientRect();
    opened.value = { x: box.right, y: box.bottom + 2, items, back };
  } else {
    opened.value = { x: at.clientX, y: at.clientY, items, back };
  }
}

function close(): void {
  const back = opened.value?.back;
  opened.value = undefined;
  back?.focus();
}

export function Menus() {
  return opened.value ? <Menu menu={opened.value} /> : null;
}

function Menu({ menu }: { menu: Opened }) {
  const element = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const box = element.current;
    if (!box) return;
    box.style.left = `${Math.max(4, Math.min(menu.x - (menu.back ? 0 : 0), window.innerWidth - box.offsetWidth - 8))}px`;
    box.style.top = `${Math.max(4, Math.min(menu.y, window.innerHeight - box.offsetHeight - 8))}px`;
    box.querySelector("button")?.focus();
    const outside = (event: Event) => {
      if (event.target instanceof Node && !box.contains(event.target)) close();
    };
    document.addEventListener("pointerdown", outside, true);
    return () => document.removeEventListener("pointerdown", outside, true);
  }, [menu]);
  const keys = (event: KeyboardEvent) => {
    const buttons = [...(element.current?.querySelectorAll<HTMLButtonElement>("button:not(:disabled)") ?? [])];
    const at = buttons.indexOf(document.activeElement as HTMLButtonElement);
    if (event.key === "Escape" || event.key === "Tab") close();
    else if (event.key === "ArrowDown") buttons[(at + 1) % buttons.length]?.focus();
    else if (event.key === "ArrowUp") buttons.at(at - 1)?.focus();
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const run = (item: MenuItem) => () => {
    close();
    Promise.resolve(item.run()).catch(report);
  };
  return (
    <div ref={element} class="menu" role="menu" onKeyDown={keys}>
      {menu.items.map((item) => (
        <button key={item.title} type="button" role="menuitem" class={item.danger ? "danger" : ""} disabled={item.disabled} onClick={run(item)}>
          {item.icon && <Icon name={item.icon} />}
          {item.title}
        </button>
      ))}
    </div>
  );
}
