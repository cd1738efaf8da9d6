// SPDX-License-Identifier: Apache-2.0
// Activity: events, and the history of the settings with undo.

import { useMemo } from "preact/hooks";
import { app, stores } from "../api/stores.ts";
import { mergePatch, resources } from "../api/kube.ts";
import { keyOf, type Event } from "../api/objects.ts";
import { session } from "../api/session.ts";
import { seconds } from "../format.ts";
import { changesOf, show, undoOf, type Change } from "../history.ts";
import { link, route } from "../router.ts";
import { t } from "../texts.ts";
import { Age, Badge, Empty, Tabs } from "../ui/controls.tsx";
import { ask } from "../ui/dialog.tsx";
import { useList } from "../ui/hooks.ts";
import { notify } from "../ui/toasts.tsx";
import { Table, type Action, type Column } from "../ui/table.tsx";

export function Activity() {
  const writes = session.value?.role !== "viewer"; // a viewer does not see values of settings' changes
  const tab = writes && route.value.parts[0] === "history" ? "history" : "events";
  const tabs = [{ id: "events", title: t.activity.events }, ...(writes ? [{ id: "history", title: t.activity.history }] : [])];
  return (
    <div class="detail">
      <Tabs label={t.activity.title} tabs={tabs} current={tab} href={(id) => link("activity", id)} />
      {tab === "history" ? <History /> : <Events />}
    </div>
  );
}

function lastSeen(event: Event): string | undefined {
  return event.series?.lastObservedTime ?? event.lastTimestamp ?? event.eventTime ?? event.firstTimestamp ?? event.metadata.creationTimestamp;
}

function regarding(event: Event): string {
  const about = event.regarding ?? event.involvedObject;
  const container = about?.kind === "Container" ? stores.containers.find(`${about.namespace}/${about.name}`)?.status?.name : undefined;
  return `${about?.kind ?? ""} ${container ?? about?.name ?? ""}`;
}

const EVENT_COLUMNS: readonly Column<Event>[] = [
  { id: "time", title: t.activity.time, width: "70px", value: (row) => -(seconds(lastSeen(row)) ?? 0), cell: (row) => <Age time={lastSeen(row)} /> },
  { id: "reason", title: t.activity.reason, width: "minmax(110px, 1fr)", value: (row) => row.reason, cell: (row) => <Badge tone={row.type === "Warning" ? "warn" : "idle"}>{row.reason}</Badge> },
  { id: "object", title: t.activity.object, width: "minmax(110px, 1.2fr)", from: 560, value: regarding, cell: (row) => <bdi title={regarding(row)}>{regarding(row)}</bdi> },
  { id: "message", title: t.activity.message, width: "minmax(140px, 3fr)", value: (row) => row.note ?? row.message, cell: (row) => <bdi title={row.note ?? row.message}>{row.note ?? row.message}</bdi> },
  { id: "count", title: t.activity.count, width: "60px", from: 700, end: true, value: (row) => row.series?.count ?? row.deprecatedCount ?? row.count, cell: (row) => row.series?.count ?? row.deprecatedCount ?? row.count ?? 1 },
];

function Events() {
  const events = useList(stores.events);
  useList(stores.containers);
  return (
    <Table
      label={t.activity.events}
      rows={events}
      keyOf={keyOf}
      nameOf={(row) => row.metadata.name}
      columns={EVENT_COLUMNS}
      textOf={(row) => [row.reason, row.note, row.message, regarding(row)]}
      state={stores.events.state.value}
      problem={stores.events.problem.value}
      empty={<Empty icon="clock" title={t.activity.emptyEvents}><p>{t.activity.emptyEventsText}</p></Empty>}
    />
  );
}

const HISTORY_COLUMNS: readonly Column<Change>[] = [
  { id: "time", title: t.activity.time, width: "70px", value: (row) => -(seconds(row.time) ?? 0), cell: (row) => <Age time={row.time} /> },
  { id: "user", title: t.activity.user, width: "minmax(90px, 1fr)", from: 560, value: (row) => row.user, cell: (row) => <bdi title={row.manager}>{row.user} · {row.manager}</bdi> },
  { id: "change", title: t.activity.setting, width: "minmax(180px, 4fr)", cell: (row) => <Fields change={row} /> },
];

function Fields({ change }: { change: Change }) {
  const text = change.fields.map(({ field, old, new: value, masked = [] }) => `${field}: ${masked.includes("old") ? t.activity.masked : show(old) || "–"} → ${masked.includes("new") ? t.activity.masked : show(value) || "–"}`);
  return <bdi title={text.join("\n")}>{text.join("; ")}</bdi>;
}

async function undo(change: Change): Promise<void> {
  const current = app.value;
  if (!current) return;
  const patch = undoOf(change, current.spec);
  if (patch === "masked") throw new Error(t.activity.cannotUndo);
  if (patch === "changed") throw new Error(t.activity.changed);
  const items = change.fields.map((field) => `${field.field}: ${show(field.new) || "–"} → ${show(field.old) || "–"}`);
  if (!(await ask({ title: t.activity.undoTitle, text: t.activity.undoText, items, action: t.activity.undo, danger: false }))) return;
  await mergePatch(resources.apps, current, { metadata: { resourceVersion: current.metadata.resourceVersion }, spec: patch });
  notify(t.activity.undone);
}

const HISTORY_ACTIONS: readonly Action<Change>[] = [
  { id: "undo", title: t.activity.undo, icon: "undo", inline: true, single: true, allowed: (row) => row.operation !== "create", run: ([row]) => row && undo(row) },
];

function History() {
  const configs = useList(stores.history);
  useList(stores.apps);
  const changes = useMemo(() => changesOf(configs[0]), [configs]);
  return (
    <Table
      label={t.activity.history}
      rows={changes}
      keyOf={(row) => row.id}
      nameOf={(row) => row.fields.map((field) => field.field).join(", ")}
      columns={HISTORY_COLUMNS}
      textOf={(row) => [row.user, row.manager, ...row.fields.map((field) => field.field)]}
      actions={HISTORY_ACTIONS}
      state={stores.history.state.value}
      problem={stores.history.problem.value}
      empty={<Empty icon="undo" title={t.activity.emptyHistory}><p>{t.activity.emptyHistoryText}</p></Empty>}
    />
  );
}
