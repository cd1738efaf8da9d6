// SPDX-License-Identifier: Apache-2.0
// What rdd fetches: the tools, the files with their progress, and the monitors of URLs.

import type { ComponentChildren } from "preact";
import { create, get, mergePatch, remove, resources } from "../api/kube.ts";
import { condition, keyOf } from "../api/objects.ts";
import { isServed, namespace, stores } from "../api/stores.ts";
import type { Checkout, Resource, URLMonitor } from "../api/types.ts";
import { bytes, seconds } from "../format.ts";
import { link, route } from "../router.ts";
import { t } from "../texts.ts";
import { Age, Badge, Button, Command, Empty, Progress, Tabs } from "../ui/controls.tsx";
import { ask } from "../ui/dialog.tsx";
import { openForm } from "../ui/forms.tsx";
import { useList, useLoad } from "../ui/hooks.ts";
import { Table, type Action, type Column } from "../ui/table.tsx";

interface Tool {
  name: string;
  title: string;
  license: string;
  versions: string[];
  installed: { version: string; isCurrent: boolean; sizeBytes: number }[];
}

const newest = (tool: Tool) => tool.versions.at(-1) ?? "";
const sizeOf = (tool: Tool) => tool.installed.reduce((sum, each) => sum + each.sizeBytes, 0);

const TOOLS: readonly Column<Tool>[] = [
  { id: "name", title: t.downloads.name, width: "minmax(90px, 1fr)", value: (row) => row.name, cell: (row) => <span class="name" title={row.title}>{row.name}</span> },
  { id: "installed", title: t.downloads.installed, width: "minmax(100px, 1.5fr)", value: (row) => row.installed.length, cell: (row) => row.installed.map((each) => <Badge key={each.version} tone={each.isCurrent ? "good" : "idle"} title={each.isCurrent ? t.downloads.inUse : undefined}>{each.version}</Badge>) },
  { id: "newest", title: t.downloads.newest, width: "90px", value: newest, cell: newest },
  { id: "size", title: t.downloads.size, width: "86px", from: 520, end: true, value: sizeOf, cell: (row) => (row.installed.length ? bytes(sizeOf(row)) : "–") },
  { id: "license", title: t.downloads.license, width: "96px", from: 760, value: (row) => row.license, cell: (row) => row.license },
  { id: "command", title: t.downloads.command, width: "minmax(180px, 2fr)", from: 620, cell: (row) => (row.installed.some((each) => each.version === newest(row)) ? "" : <Command text={`rdd tools install ${row.name}`} />) },
];

function Tools() {
  const loaded = useLoad(() => get<{ tools: Tool[] }>("/service/tools"), "tools");
  return (
    <Table
      label={t.downloads.tabs["tools"] ?? ""}
      rows={loaded.value?.tools ?? []}
      keyOf={(row) => row.name}
      nameOf={(row) => row.name}
      columns={TOOLS}
      textOf={(row) => [row.name, row.title]}
      state={loaded.error ? "error" : loaded.loading ? "loading" : "live"}
      problem={loaded.error}
      empty={<Empty icon="download" title={t.downloads.noTools} />}
    />
  );
}

/** The Checkouts of a Resource: those that fetch now first. */
function checkoutsOf(row: Resource): Checkout[] {
  const all = stores.checkouts.items.value.filter((each) => each.spec.resource === row.metadata.name);
  return all.sort((a, b) => Number(isFetching(b)) - Number(isFetching(a)));
}

const isFetching = (row: Checkout) => condition(row, "Ready")?.reason === "Fetching";

function FileState({ row }: { row: Resource }): ComponentChildren {
  const [checkout] = checkoutsOf(row);
  const ready = condition(checkout, "Ready");
  if (checkout && isFetching(checkout)) {
    const { fetchedBytes = 0, totalBytes, progress } = checkout.status ?? {};
    return (
      <span class="snapshot-state">
        <Badge tone="busy" title={progress}>{progress || t.working}</Badge>
        <Progress value={totalBytes ? fetchedBytes / totalBytes : undefined} label={progress || t.working} />
      </span>
    );
  }
  if (ready?.status === "False") return <Badge tone="bad" title={ready.message}>{ready.reason}</Badge>;
  return <Badge tone={row.status?.status === "cached" ? "good" : "idle"}>{row.status?.status ?? "–"}</Badge>;
}

const FILES: readonly Column<Resource>[] = [
  { id: "name", title: t.downloads.name, width: "minmax(140px, 2fr)", value: (row) => row.metadata.name, cell: (row) => <bdi class="name" title={row.metadata.name}>{row.metadata.name}</bdi> },
  { id: "category", title: t.downloads.category, width: "80px", from: 720, value: (row) => row.spec.category, cell: (row) => row.spec.category },
  { id: "state", title: t.downloads.state, width: "minmax(110px, 1.5fr)", value: (row) => row.status?.status, cell: (row) => <FileState row={row} /> },
  { id: "size", title: t.downloads.size, width: "86px", from: 460, end: true, value: (row) => row.status?.size, cell: (row) => bytes(row.status?.size) },
  { id: "url", title: t.downloads.url, width: "minmax(120px, 3fr)", from: 620, value: (row) => row.spec.url, cell: (row) => <bdi title={row.spec.url}>{row.spec.url}</bdi> },
];

async function fetchFile(row: Resource): Promise<void> {
  if (!(await ask({ title: t.downloads.fetchTitle(row.metadata.name), text: t.downloads.fetchText, items: [row.spec.url], action: t.downloads.fetch, danger: false }))) return;
  await create(resources.checkouts, namespace.value, { metadata: { generateName: "dashboard-" }, spec: { resource: row.metadata.name, readonly: true } });
}

const FILE_ACTIONS: readonly Action<Resource>[] = [
  { id: "fetch", title: t.downloads.fetch, icon: "download", inline: true, single: true, allowed: (row) => row.status?.status !== "cached" && checkoutsOf(row).length === 0, run: ([row]) => row && fetchFile(row) },
  { id: "cancel", title: t.downloads.cancel, icon: "cross", inline: true, single: true, allowed: (row) => checkoutsOf(row).some((each) => condition(each, "Ready")?.status !== "True"), run: async ([row]) => {
    if (row) await Promise.all(checkoutsOf(row).filter((each) => condition(each, "Ready")?.status !== "True").map((each) => remove(resources.checkouts, each)));
  } },
  { id: "delete", title: t.delete, icon: "trash", danger: true, run: async (rows) => {
    if (await ask({ title: t.downloads.deleteFiles(rows.length), text: t.downloads.deleteFilesText, items: rows.map((row) => row.metadata.name), action: t.delete })) {
      await Promise.all(rows.map((row) => remove(resources.fetchables, row)));
    }
  } },
];

function Files() {
  const rows = useList(stores.fetchables);
  useList(stores.checkouts);
  return (
    <Table
      label={t.downloads.tabs["files"] ?? ""}
      rows={rows}
      keyOf={keyOf}
      nameOf={(row) => row.metadata.name}
      columns={FILES}
      textOf={(row) => [row.metadata.name, row.spec.category, row.spec.url]}
      actions={FILE_ACTIONS}
      state={stores.fetchables.state.value}
      problem={stores.fetchables.problem.value}
      empty={<Empty icon="download" title={t.downloads.noFiles}><p>{t.downloads.noFilesText}</p></Empty>}
    />
  );
}

function MonitorState({ row }: { row: URLMonitor }) {
  const ready = condition(row, "Ready");
  if (row.spec.suspended) return <Badge tone="idle">{t.downloads.suspended}</Badge>;
  return <Badge tone={ready?.status === "True" ? "good" : ready ? "bad" : "busy"} title={ready?.message}>{ready?.reason ?? t.working}</Badge>;
}

const MONITORS: readonly Column<URLMonitor>[] = [
  { id: "name", title: t.downloads.name, width: "minmax(120px, 1.5fr)", value: (row) => row.metadata.name, cell: (row) => <bdi class="name" title={row.metadata.name}>{row.metadata.name}</bdi> },
  { id: "state", title: t.downloads.state, width: "minmax(96px, 1fr)", value: (row) => condition(row, "Ready")?.reason, cell: (row) => <MonitorState row={row} /> },
  { id: "checked", title: t.downloads.checked, width: "86px", from: 460, end: true, value: (row) => -(seconds(row.status?.lastCheck) ?? 0), cell: (row) => <Age time={row.status?.lastCheck} /> },
  { id: "changed", title: t.downloads.changed, width: "86px", from: 560, end: true, value: (row) => -(seconds(row.status?.lastChange) ?? 0), cell: (row) => <Age time={row.status?.lastChange} /> },
  { id: "interval", title: t.downloads.interval, width: "72px", from: 720, end: true, value: (row) => row.spec.interval, cell: (row) => row.spec.interval },
  { id: "url", title: t.downloads.url, width: "minmax(120px, 3fr)", from: 640, value: (row) => row.spec.url, cell: (row) => <bdi title={row.spec.url}>{row.spec.url}</bdi> },
];

const suspend = (row: URLMonitor, suspended: boolean) => mergePatch(resources.urlMonitors, row, { spec: { suspended: suspended || null } });

const MONITOR_ACTIONS: readonly Action<URLMonitor>[] = [
  { id: "check", title: t.downloads.check, icon: "restart", inline: true, single: true, allowed: (row) => !row.spec.suspended, run: ([row]) => row && mergePatch(resources.urlMonitors, row, { spec: { nextCheck: `${new Date().toISOString().slice(0, 19)}Z` } }) },
  { id: "suspend", title: t.downloads.suspend, icon: "pause", single: true, allowed: (row) => !row.spec.suspended, run: ([row]) => row && suspend(row, true) },
  { id: "resume", title: t.downloads.resume, icon: "play", inline: true, single: true, allowed: (row) => row.spec.suspended === true, run: ([row]) => row && suspend(row, false) },
  { id: "delete", title: t.delete, icon: "trash", danger: true, run: async (rows) => {
    if (await ask({ title: t.downloads.deleteMonitors(rows.length), text: t.downloads.deleteMonitorsText, items: rows.map((row) => row.metadata.name), action: t.delete })) {
      await Promise.all(rows.map((row) => remove(resources.urlMonitors, row)));
    }
  } },
];

function openCreate(): void {
  openForm({
    title: t.downloads.create,
    text: t.downloads.createText,
    action: t.create,
    fields: [
      { name: "name", label: t.downloads.name, required: true },
      { name: "url", label: t.downloads.url, required: true, placeholder: "https://" },
      { name: "interval", label: t.downloads.interval, required: true, initial: "24h" },
    ],
    submit: async ({ name, url, interval }) => {
      await create(resources.urlMonitors, undefined, { metadata: { name }, spec: { url, interval } });
    },
  });
}

function Monitors() {
  const rows = useList(stores.urlMonitors);
  return (
    <Table
      label={t.downloads.tabs["monitors"] ?? ""}
      rows={rows}
      keyOf={keyOf}
      nameOf={(row) => row.metadata.name}
      columns={MONITORS}
      textOf={(row) => [row.metadata.name, row.spec.url]}
      actions={MONITOR_ACTIONS}
      state={stores.urlMonitors.state.value}
      problem={stores.urlMonitors.problem.value}
      empty={<Empty icon="clock" title={t.downloads.noMonitors}><p>{t.downloads.noMonitorsText}</p></Empty>}
      extra={<Button kind="primary" icon="plus" onClick={openCreate}>{t.downloads.create}</Button>}
    />
  );
}

export function Downloads() {
  const names = ["tools", ...(isServed(resources.fetchables) ? ["files"] : []), ...(isServed(resources.urlMonitors) ? ["monitors"] : [])];
  const wanted = route.value.parts[0] ?? "";
  const current = names.includes(wanted) ? wanted : "tools";
  return (
    <div class="detail">
      <Tabs label={t.downloads.title} tabs={names.map((each) => ({ id: each, title: t.downloads.tabs[each] ?? each }))} current={current} href={(each) => link("downloads", each)} />
      <div class="detail-body" key={current}>{current === "files" ? <Files /> : current === "monitors" ? <Monitors /> : <Tools />}</div>
    </div>
  );
}
