// SPDX-License-Identifier: Apache-2.0
// Snapshots of the App and of machines: create, restore, restore as another machine, delete.

import { annotate, create, remove, resources } from "../api/kube.ts";
import { follow } from "../api/requests.ts";
import { stores } from "../api/stores.ts";
import { condition, isTrue, keyOf } from "../api/objects.ts";
import type { Snapshot } from "../api/types.ts";
import { bytes, seconds } from "../format.ts";
import { t } from "../texts.ts";
import { Age, Badge, Button, Empty, Progress, type Tone } from "../ui/controls.tsx";
import { ask } from "../ui/dialog.tsx";
import { openForm } from "../ui/forms.tsx";
import { useList } from "../ui/hooks.ts";
import { notify } from "../ui/toasts.tsx";
import { Table, type Action, type Column } from "../ui/table.tsx";
import { suggested } from "./machine-disk.tsx";

const RESTORE = "rdd.rancherdesktop.io/restoreRequested";
const RESTORE_AS = "rdd.rancherdesktop.io/restoreAs";

/** What a snapshot saves: "App", or the name of its machine. */
function subject({ spec }: Snapshot): string {
  return spec.scope.kind === "App" ? t.snapshots.appShort : (spec.scope.name ?? "");
}

/** The condition that matters now: the restore that runs or has failed, else the content. */
function current(row: Snapshot) {
  const restored = condition(row, "Restored");
  return restored && restored.status !== "True" ? restored : condition(row, "Ready");
}

function toneOf(row: Snapshot): Tone {
  const found = current(row);
  if (found?.status === "True") return "good";
  return !found || /ing$/.test(found.reason) ? "busy" : "bad";
}

function State({ row }: { row: Snapshot }) {
  const tone = toneOf(row);
  const { progress, copiedBytes, totalBytes } = row.status ?? {};
  return (
    <span class="snapshot-state">
      <Badge tone={tone} title={progress || current(row)?.message}>{current(row)?.reason ?? t.working}</Badge>
      {tone === "busy" && <Progress value={totalBytes ? (copiedBytes ?? 0) / totalBytes : undefined} label={progress || t.working} />}
    </span>
  );
}

const COLUMNS: readonly Column<Snapshot>[] = [
  { id: "name", title: t.snapshots.name, width: "minmax(110px, 1.5fr)", value: (row) => row.metadata.name, cell: (row) => <bdi class="name" title={row.metadata.name}>{row.metadata.name}</bdi> },
  { id: "of", title: t.snapshots.of, width: "minmax(60px, 0.7fr)", value: subject, cell: (row) => <bdi>{subject(row)}</bdi> },
  { id: "state", title: t.snapshots.state, width: "minmax(100px, 1.2fr)", value: (row) => current(row)?.reason, cell: (row) => <State row={row} /> },
  { id: "description", title: t.snapshots.description, width: "minmax(100px, 2fr)", from: 720, value: (row) => row.spec.description, cell: (row) => <bdi title={row.spec.description}>{row.spec.description}</bdi> },
  { id: "created", title: t.snapshots.created, width: "80px", from: 520, end: true, value: (row) => -(seconds(row.status?.creationTime) ?? 0), cell: (row) => <Age time={row.status?.creationTime} /> },
  { id: "size", title: t.snapshots.size, width: "86px", from: 460, end: true, value: (row) => row.status?.size, cell: (row) => bytes(row.status?.size) },
];

/** Request a restore and wait for its end; an error has the message of the condition. */
async function restore(row: Snapshot, as?: string): Promise<void> {
  const request = String(Date.now());
  await annotate(resources.snapshots, row, { [RESTORE]: request, [RESTORE_AS]: as ?? null });
  await follow(stores.snapshots, keyOf(row), (found) => {
    if (!found) return true;
    const restored = condition(found, "Restored");
    if (found.status?.restoreRequest !== request || restored?.reason === "Restoring") return false;
    if (restored?.status === "False") throw new Error(restored.message);
    return restored?.status === "True";
  });
  notify(t.snapshots.restored);
}

async function confirmRestore(row: Snapshot): Promise<void> {
  const { name } = row.metadata;
  if (await ask({ title: t.snapshots.restoreTitle(name), text: t.snapshots.restoreText(subject(row)), action: t.snapshots.restore })) await restore(row);
}

function openRestoreAs(row: Snapshot): void {
  openForm({
    title: t.snapshots.copyTitle(row.metadata.name),
    action: t.create,
    fields: [{ name: "name", label: t.snapshots.copyName, required: true }],
    submit: (values) => restore(row, values["name"]),
  });
}

const ACTIONS: readonly Action<Snapshot>[] = [
  { id: "restore", title: t.snapshots.restore, icon: "undo", inline: true, single: true, allowed: (row) => isTrue(row, "Ready"), run: ([row]) => row && confirmRestore(row) },
  { id: "copy", title: t.snapshots.copy, icon: "copy", single: true, allowed: (row) => isTrue(row, "Ready"), run: ([row]) => row && openRestoreAs(row) },
  {
    id: "delete", title: t.delete, icon: "trash", danger: true, inline: true,
    run: async (rows) => {
      if (await ask({ title: t.snapshots.deleteTitle(rows.length), text: t.snapshots.deleteText, items: rows.map((row) => row.metadata.name), action: t.delete })) {
        await Promise.all(rows.map((row) => remove(resources.snapshots, row)));
      }
    },
  },
];

function openCreate(): void {
  const machines = stores.limaVMs.items.value.map(({ metadata }) => `LimaVM ${metadata.namespace}/${metadata.name}`);
  openForm({
    title: t.snapshots.create,
    text: t.snapshots.createText,
    action: t.create,
    fields: [
      { name: "of", label: t.snapshots.of, kind: "select", options: [t.snapshots.app, ...machines], initial: t.snapshots.app },
      { name: "name", label: t.snapshots.name, required: true, initial: suggested(new Date()) },
      { name: "description", label: t.snapshots.descriptionOptional },
    ],
    submit: async (values) => {
      const [, namespace, name] = /^LimaVM ([^/]+)\/(.+)$/.exec(values["of"] ?? "") ?? [];
      const scope = name ? { kind: "LimaVM", name, namespace } : { kind: "App" };
      const description = values["description"] ? { description: values["description"] } : {};
      await create(resources.snapshots, undefined, { metadata: { name: values["name"] }, spec: { scope, ...description } });
    },
  });
}

export function Snapshots() {
  const snapshots = useList(stores.snapshots);
  useList(stores.limaVMs);
  return (
    <Table
      label={t.snapshots.title}
      rows={snapshots}
      keyOf={keyOf}
      nameOf={(row) => row.metadata.name}
      columns={COLUMNS}
      textOf={(row) => [row.metadata.name, subject(row), row.spec.description]}
      actions={ACTIONS}
      state={stores.snapshots.state.value}
      problem={stores.snapshots.problem.value}
      empty={<Empty icon="camera" title={t.snapshots.empty}><p>{t.snapshots.emptyText}</p></Empty>}
      extra={<Button kind="primary" icon="plus" onClick={openCreate}>{t.snapshots.create}</Button>}
      sortBy="created"
    />
  );
}
