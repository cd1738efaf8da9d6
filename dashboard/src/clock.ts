// SPDX-License-Identifier: Apache-2.0
// The time as a signal. It ticks only while a component on screen shows it and the page is
// visible: an idle page has no timer.

import { signal } from "@preact/signals";

export const now = signal(Date.now() / 1000);

let users = 0;
let timer: ReturnType<typeof setInterval> | undefined;

function hidden(): boolean {
  return typeof document !== "undefined" && document.hidden;
}

function update(): void {
  const wanted = users > 0 && !hidden();
  if (wanted) now.value = Date.now() / 1000;
  if (wanted && timer === undefined) {
    timer = setInterval(() => (now.value = Date.now() / 1000), 1000);
  } else if (!wanted && timer !== undefined) {
    clearInterval(timer);
    timer = undefined;
  }
}

if (typeof document !== "undefined") document.addEventListener("visibilitychange", update);

/** Keep the clock ticking until the returned function is called. */
export function useTicks(): () => void {
  users += 1;
  update();
  return () => {
    users -= 1;
    update();
  };
}

/** Call a function now, or as soon as the page is visible. */
export function whenVisible(call: () => void): void {
  if (!hidden()) {
    call();
    return;
  }
  const changed = () => {
    if (hidden()) return;
    document.removeEventListener("visibilitychange", changed);
    call();
  };
  document.addEventListener("visibilitychange", changed);
}
