// SPDX-License-Identifier: Apache-2.0
// Stop and restart the machine of the App: always after a question that names what ends.

import { appMachine, restartMachine, setRunning } from "./api/requests.ts";
import { stores } from "./api/stores.ts";
import { t } from "./texts.ts";
import { ask } from "./ui/dialog.tsx";

function consequences(): string {
  const running = stores.containers.items.value.filter((each) => each.status?.status === "running").length;
  return t.health.stopText(running);
}

export async function stopApp(): Promise<void> {
  if (await ask({ title: t.health.stopTitle, text: consequences(), action: t.health.stop })) await setRunning(false);
}

export async function restartApp(): Promise<void> {
  const machine = appMachine(stores.limaVMs.items.value);
  if (machine && (await ask({ title: t.health.restartTitle, text: consequences(), action: t.health.restart, danger: false }))) await restartMachine(machine);
}
