// SPDX-License-Identifier: Apache-2.0
// Volumes: sizes and users, files, backup and restore.

import { useMemo } from "preact/hooks";
import { download, engine, get, remove, resources, upload } from "../api/kube.ts";
import { paused, stores } from "../api/stores.ts";
import { keyOf } from "../api/objects.ts";
import { session } from "../api/session.ts";
import type { Container, Volume } from "../api/types.ts";
import { fulfil } from "../api/requests.ts";
import { bytes, seconds } from "../format.ts";
import { go, link, route } from "../router.ts";
import { t } from "../texts.ts";
import { Age, Button, Empty, Spinner } from "../ui/controls.tsx";
import { ask } from "../ui/dialog.tsx";
import { openForm } from "../ui/forms.tsx";
import { useList, useLoad } from "../ui/hooks.ts";
import { notify } from "../ui/toasts.tsx";
import { Table, type Action, type Column } from "../ui/table.tsx";
import { Files } from "./files.tsx";
import type { Usage } from "./home.tsx";

export function Volumes() {
  const [name] = route.value.parts;
  return name ? <VolumeFiles name={name} /> : <VolumeList />;
}

function archive(volume: string, path?: string): string {
  return engine(`volume-archive/${encodeURIComponent(volume)}${path ? `?path=${encodeURIComponent(path)}` : ""}`);
}

function usersOf(containers: readonly Container[]): ReadonlyMap<string, string[]> {
  const users = new Map<string, string[]>();
  for (const { status } of containers) {
    for (const volume of status?.volumes ?? []) users.set(volume, [...(users.get(volume) ?? []), status?.name ?? ""]);
  }
  return users;
}

function columnsFor(users: ReadonlyMap<string, string[]>, sizes: ReadonlyMap<string, number>, writes: boolean): Column<Volume>[] {
  const used = (row: Volume) => users.get(row.status?.name ?? "") ?? [];
  const size = (row: Volume) => sizes.get(row.status?.name ?? "");
  return [
    { id: "name", title: t.volumes.name, width: "minmax(140px, 3fr)", value: (row) => row.status?.name, cell: (row) => (writes ? <a class="name" href={link("volumes", row.metadata.name)} title={row.status?.name}><bdi>{row.status?.name}</bdi></a> : <bdi class="name">{row.status?.name}</bdi>) },
    { id: "used", title: t.volumes.usedBy, width: "minmax(100px, 1.5fr)", from: 480, value: (row) => used(row).length, cell: (row) => (row.metadata.deletionTimestamp ? <span class="badge warn">{t.images.waiting}</span> : used(row).length > 0 ? <bdi title={used(row).join(", ")}>{used(row).join(", ")}</bdi> : <span class="muted">{t.images.unused}</span>) },
    { id: "driver", title: t.volumes.driver, width: "80px", from: 640, value: (row) => row.status?.driver, cell: (row) => row.status?.driver },
    { id: "mountpoint", title: t.volumes.mountpoint, width: "minmax(120px, 2fr)", from: 900, cell: (row) => <code title={row.status?.mountpoint}>{row.status?.mountpoint}</code> },
    { id: "created", title: t.volumes.created, width: "80px", from: 560, end: true, value: (row) => -(seconds(row.status?.createdAt) ?? 0), cell: (row) => <Age time={row.status?.createdAt} /> },
    ...(sizes.size > 0 ? [{ id: "size", title: t.volumes.size, width: "86px", end: true, value: size, cell: (row: Volume) => bytes(size(row)) }] : []),
  ];
}

function actionsFor(users: ReadonlyMap<string, string[]>): Action<Volume>[] {
  return [
    { id: "browse", title: t.volumes.browse, icon: "folder", inline: true, single: true, run: ([row]) => row && go("volumes", row.metadata.name) },
    { id: "backup", title: t.volumes.backup, icon: "download", single: true, run: ([row]) => row && download(archive(row.status?.name ?? "")) },
    { id: "restore", title: t.volumes.restore, icon: "upload", single: true, run: ([row]) => row && openRestore(row) },
    {
      id: "delete", title: t.delete, icon: "trash", danger: true, inline: true,
      run: async (rows) => {
        const used = rows.filter((row) => users.has(row.status?.name ?? "")).length;
        const items = rows.map((row) => row.status?.name ?? "");
        if (await ask({ title: t.volumes.deleteTitle(rows.length), text: t.volumes.deleteText(used), items, action: t.delete })) {
          await Promise.all(rows.map((row) => remove(resources.volumes, row)));
        }
      },
    },
  ];
}

function VolumeList() {
  const volumes = useList(stores.volumes);
  const containers = useList(stores.containers);
  const writes = session.value?.role !== "viewer";
  const users = useMemo(() => usersOf(containers), [containers]);
  const isAnswering = volumes.length > 0 && !paused.value;
  const { value } = useLoad(async () => (isAnswering ? get<Usage>(engine("usage")).catch(() => undefined) : undefined), volumes.length, isAnswering);
  const sizes = useMemo(() => new Map((value?.volumes?.items ?? []).map((each) => [each.name, each.size])), [value]);
  const columns = useMemo(() => columnsFor(users, sizes, writes), [users, sizes, writes]);
  return (
    <Table
      label={t.volumes.title}
      rows={volumes}
      keyOf={keyOf}
      nameOf={(row) => row.status?.name ?? row.metadata.name}
      columns={columns}
      textOf={(row) => [row.status?.name, row.status?.driver, ...(users.get(row.status?.name ?? "") ?? [])]}
      actions={writes ? actionsFor(users) : []}
      href={(row) => link("volumes", row.metadata.name)}
      state={stores.volumes.state.value}
      problem={stores.volumes.problem.value}
      empty={<Empty icon="disk" title={t.volumes.empty}><p>{t.volumes.emptyText}</p></Empty>}
      extra={writes && <Button kind="primary" icon="plus" onClick={openCreateVolume}>{t.volumes.create}</Button>}
    />
  );
}

function openCreateVolume(): void {
  openForm({
    title: t.volumes.create,
    action: t.create,
    fields: [
      { name: "name", label: t.volumes.optionalName },
      { name: "driver", label: t.volumes.driver, initial: "local", required: true },
    ],
    submit: async (values) => {
      await fulfil(resources.volumeCreates, stores.volumeCreates, { driver: values["driver"], ...(values["name"] ? { name: values["name"] } : {}) });
      notify(t.volumes.created_);
    },
  });
}

function openRestore(volume: Volume): void {
  openForm({
    title: t.volumes.restoreTitle(volume.status?.name ?? ""),
    text: t.volumes.restoreText,
    action: t.volumes.restore.replace("…", ""),
    fields: [{ name: "archive", label: t.volumes.archive, kind: "file", required: true }],
    submit: async (_, files) => {
      const file = files["archive"];
      if (!file) throw new Error(t.volumes.archive);
      await upload(archive(volume.status?.name ?? ""), file);
      notify(t.volumes.restored);
    },
  });
}

function VolumeFiles({ name }: { name: string }) {
  const volume = useList(stores.volumes).find((each) => each.metadata.name === name);
  if (!volume && stores.volumes.state.value === "loading") return <div class="empty"><Spinner /></div>;
  if (!volume) return <Empty icon="disk" title={t.volumes.gone}><a href={link("volumes")}>{t.volumes.back}</a></Empty>;
  const volumeName = volume.status?.name ?? "";
  return (
    <div class="detail">
      <div class="detail-head">
        <a class="back" href={link("volumes")} aria-label={t.volumes.back}>←</a>
        <h2><bdi>{volumeName}</bdi></h2>
        <span class="gap" />
        <div class="buttons">
          <Button small icon="download" onClick={() => download(archive(volumeName))}>{t.volumes.backup}</Button>
          <Button small icon="upload" onClick={() => openRestore(volume)}>{t.volumes.restore}</Button>
        </div>
      </div>
      <div class="detail-body">
        <Files list={(path) => engine(`volume-files/${encodeURIComponent(volumeName)}?path=${encodeURIComponent(path)}`)} archive={(path) => archive(volumeName, path)} />
      </div>
    </div>
  );
}
