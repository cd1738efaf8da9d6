// SPDX-License-Identifier: Apache-2.0
// Machines: the list of LimaVMs with their state and actions.

import { annotate, mergePatch, remove, resources } from "../api/kube.ts";
import { stores, namespace } from "../api/stores.ts";
import { condition, isTrue, keyOf } from "../api/objects.ts";
import { session } from "../api/session.ts";
import { restartMachine, setMachineRunning } from "../api/requests.ts";
import type { LimaVM } from "../api/types.ts";
import { go, link, route } from "../router.ts";
import { t } from "../texts.ts";
import { Age, Badge, Empty, type Tone } from "../ui/controls.tsx";
import { ask } from "../ui/dialog.tsx";
import { useList } from "../ui/hooks.ts";
import { Table, type Action, type Column } from "../ui/table.tsx";
import { MachineDetail } from "./machine-detail.tsx";

export function Machines() {
  const [space, name, tab] = route.value.parts;
  return space && name ? <MachineDetail id={`${space}/${name}`} tab={tab ?? "info"} /> : <MachineList />;
}

function toneOf(machine: LimaVM): Tone {
  if (condition(machine, "Degraded")?.status === "True") return "warn";
  if (isTrue(machine, "Paused")) return "idle";
  const running = condition(machine, "Running");
  if (running?.status === "True") return "good";
  if (machine.status?.failure || /Failed$/.test(running?.reason ?? "")) return "bad";
  return running?.reason === "Stopped" && !machine.spec.running ? "idle" : "busy";
}

export function StateOf({ machine }: { machine: LimaVM }) {
  const running = condition(machine, "Running") ?? condition(machine, "Created");
  const degraded = isTrue(machine, "Degraded") ? condition(machine, "Degraded") : undefined;
  const pause = isTrue(machine, "Paused") ? condition(machine, "Paused") : undefined;
  return <Badge tone={toneOf(machine)} title={(degraded ?? pause ?? running)?.message}>{degraded?.reason ?? (pause && t.health.paused) ?? running?.reason ?? "–"}</Badge>;
}

export const isOfApp = (machine: LimaVM) => machine.metadata.name === "rd" && machine.metadata.namespace === namespace.value;

const COLUMNS: readonly Column<LimaVM>[] = [
  { id: "name", title: t.machines.name, width: "minmax(110px, 1.5fr)", value: (row) => row.metadata.name, cell: (row) => <a class="name" href={link("machines", row.metadata.namespace ?? "", row.metadata.name)}><bdi>{row.metadata.name}</bdi>{isOfApp(row) && <span class="muted"> · {t.machines.ofApp}</span>}</a> },
  { id: "state", title: t.machines.state, width: "minmax(96px, 1fr)", value: (row) => condition(row, "Running")?.reason, cell: (row) => <StateOf machine={row} /> },
  { id: "message", title: t.machines.message, width: "minmax(120px, 2.5fr)", from: 640, cell: (row) => <span title={condition(row, "Running")?.message}>{condition(row, "Running")?.message}</span> },
  { id: "starts", title: t.machines.starts, width: "64px", from: 560, end: true, value: (row) => row.status?.restartCount, cell: (row) => row.status?.restartCount ?? 0 },
  { id: "age", title: t.machines.age, width: "72px", from: 480, end: true, value: (row) => row.metadata.creationTimestamp, cell: (row) => <Age time={row.metadata.creationTimestamp} /> },
];

/** The machine of the App follows the App; others have a switch of their own. */
export async function run(machine: LimaVM, running: boolean): Promise<void> {
  if (!running && !(await ask({ title: t.health.stopTitle, text: t.machines.stopText, action: t.health.stop }))) return;
  const owner = isOfApp(machine) ? stores.apps.items.value[0] : undefined;
  if (owner) await mergePatch(resources.apps, owner, { spec: { running } });
  else await setMachineRunning(machine, running);
}

export async function reset(machine: LimaVM): Promise<void> {
  if (!(await ask({ title: t.machines.resetTitle(machine.metadata.name), text: t.machines.resetText, action: t.machines.actions.reset.replace("…", "") }))) return;
  await annotate(resources.limaVMs, machine, { "lima.rancherdesktop.io/resetRequested": String(Date.now()) });
}

const ACTIONS: readonly Action<LimaVM>[] = [
  { id: "open", title: t.machines.actions.open, icon: "right", single: true, run: ([row]) => row && go("machines", row.metadata.namespace ?? "", row.metadata.name) },
  { id: "start", title: t.machines.actions.start, icon: "play", inline: true, single: true, allowed: (row) => !row.spec.running, run: ([row]) => row && run(row, true) },
  { id: "stop", title: t.machines.actions.stop, icon: "stop", inline: true, single: true, allowed: (row) => row.spec.running, run: ([row]) => row && run(row, false) },
  { id: "restart", title: t.machines.actions.restart, icon: "restart", single: true, allowed: (row) => row.spec.running, run: ([row]) => row && restartMachine(row) },
  { id: "reset", title: t.machines.actions.reset, icon: "undo", single: true, danger: true, run: ([row]) => row && reset(row) },
  {
    id: "delete", title: t.delete, icon: "trash", danger: true, allowed: (row) => !isOfApp(row),
    run: async (rows) => {
      if (await ask({ title: t.machines.deleteTitle(rows.length), text: t.machines.deleteText, items: rows.map((row) => row.metadata.name), action: t.delete })) {
        await Promise.all(rows.map((row) => remove(resources.limaVMs, row)));
      }
    },
  },
];

function MachineList() {
  const machines = useList(stores.limaVMs);
  useList(stores.apps);
  const writes = session.value?.role !== "viewer";
  return (
    <Table
      label={t.machines.title}
      rows={machines}
      keyOf={keyOf}
      nameOf={(row) => row.metadata.name}
      columns={COLUMNS}
      textOf={(row) => [row.metadata.name, row.metadata.namespace, condition(row, "Running")?.reason]}
      actions={writes ? ACTIONS : ACTIONS.slice(0, 1)}
      href={(row) => link("machines", row.metadata.namespace ?? "", row.metadata.name)}
      state={stores.limaVMs.state.value}
      problem={stores.limaVMs.problem.value}
      empty={<Empty icon="machine" title={t.machines.empty}><p>{t.machines.emptyText}</p></Empty>}
    />
  );
}
