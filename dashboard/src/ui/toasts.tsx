// SPDX-License-Identifier: Apache-2.0
// Short messages about the result of an action. Errors stay until they are closed.

import { signal } from "@preact/signals";
import { Icon } from "./icons.tsx";
import { t } from "../texts.ts";

interface Toast {
  id: number;
  text: string;
  bad: boolean;
}

const toasts = signal<readonly Toast[]>([]);
let next = 1;

function close(id: number): void {
  toasts.value = toasts.value.filter((toast) => toast.id !== id);
}

export function notify(text: string, bad = false): void {
  const id = next++;
  toasts.value = [...toasts.value.slice(-3), { id, text, bad }];
  if (!bad) setTimeout(() => close(id), 4000);
}

export function report(error: unknown): void {
  notify(error instanceof Error ? error.message : String(error), true);
}

export function Toasts() {
  return (
    <div class="toasts" role="region" aria-label={t.messages} aria-live="polite">
      {toasts.value.map(({ id, text, bad }) => (
        <div key={id} class={`toast${bad ? " bad" : ""}`} role={bad ? "alert" : undefined}>
          <Icon name={bad ? "warning" : "check"} />
          <span>{text}</span>
          <button type="button" class="button ghost small only-icon" aria-label={t.close} onClick={() => close(id)}>
            <Icon name="cross" />
          </button>
        </div>
      ))}
    </div>
  );
}
