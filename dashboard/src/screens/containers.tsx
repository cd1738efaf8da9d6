// SPDX-License-Identifier: Apache-2.0
// Containers: the list with live figures and actions.

import { useCallback, useEffect, useMemo, useState } from "preact/hooks";
import { containerFigures } from "../api/figures.ts";
import { remove, resources } from "../api/kube.ts";
import { act } from "../api/requests.ts";
import { app, isServed, logsAllowed, paused, stores } from "../api/stores.ts";
import { condition, keyOf } from "../api/objects.ts";
import { session } from "../api/session.ts";
import type { Container } from "../api/types.ts";
import { dateTime, memory, percent, seconds, shortId } from "../format.ts";
import { link, go, route } from "../router.ts";
import { containerTone, groupOf, imageName, isSystem, portUrl, published } from "../state.ts";
import { t } from "../texts.ts";
import { Age, Badge, Button, Empty } from "../ui/controls.tsx";
import { ask } from "../ui/dialog.tsx";
import { useList } from "../ui/hooks.ts";
import { openMenu } from "../ui/menu.tsx";
import { Table, type Action, type Column } from "../ui/table.tsx";
import { openCreate } from "./container-create.tsx";
import { ContainerDetail } from "./container-detail.tsx";

export function Containers() {
  const [id, tab] = route.value.parts;
  return id ? <ContainerDetail id={id} tab={tab ?? "info"} /> : <ContainerList />;
}

export function StateBadge({ container }: { container: Container }) {
  const { status } = container;
  const failed = status?.lastAction?.state === "Failed" ? t.containers.lastActionFailed(status.lastAction.action, status.lastAction.error ?? "") : undefined;
  const state = status?.status === "exited" ? t.containers.exited(status.exitCode ?? 0) : (status?.status ?? "unknown");
  return <Badge tone={containerTone(container)} title={failed ?? status?.error}>{status?.health && status.status === "running" ? `${state} · ${status.health}` : state}</Badge>;
}

export function PortLinks({ container, all = false }: { container: Container; all?: boolean }) {
  const ports = published(container);
  const shown = all ? ports : ports.slice(0, 2);
  return (
    <span class="port-links">
      {shown.map((port) => {
        const text = `${port.hostPort}:${port.port}${port.protocol === "tcp" ? "" : `/${port.protocol}`}`;
        return port.protocol === "tcp" && container.status?.status === "running" ? <a key={text} href={portUrl(port)} target="_blank" rel="noopener noreferrer">{text}</a> : <span key={text}>{text}</span>;
      })}
      {ports.length > shown.length && (
        <button type="button" class="more-ports" onClick={(event) => openMenu(event.currentTarget, ports.slice(2).map((port) => ({ title: `${port.hostPort}:${port.port}/${port.protocol}`, run: () => window.open(portUrl(port), "_blank", "noopener,noreferrer") })))}>
          +{ports.length - shown.length}
        </button>
      )}
    </span>
  );
}

function Cpu({ id, running }: { id: string; running: boolean }) {
  const figures = containerFigures.latest.value[id];
  return <>{running ? (paused.value ? "–" : figures ? percent(figures.cpu) : "…") : ""}</>;
}

function Memory({ id, running }: { id: string; running: boolean }) {
  const figures = containerFigures.latest.value[id];
  return <>{running ? (paused.value ? "–" : figures ? memory(figures.memory) : "…") : ""}</>;
}

export function isRunning(container: Container): boolean {
  return container.status?.status === "running";
}

const COLUMNS: readonly Column<Container>[] = [
  { id: "name", title: t.containers.name, width: "minmax(120px, 2fr)", value: (row) => row.status?.name, cell: (row) => <a class="name" href={link("containers", row.metadata.name)} title={row.status?.name}><bdi>{row.status?.name ?? shortId(row.metadata.name)}</bdi></a> },
  { id: "state", title: t.containers.state, width: "minmax(96px, 1.1fr)", value: (row) => (isRunning(row) ? 0 : row.status?.status === "paused" ? 1 : 2), cell: (row) => <StateBadge container={row} /> },
  { id: "image", title: t.containers.image, width: "minmax(100px, 2fr)", from: 640, value: imageName, cell: (row) => <bdi class="cut" title={row.status?.image}>{imageName(row)}</bdi> },
  { id: "ports", title: t.containers.ports, width: "minmax(90px, 1.2fr)", from: 760, value: (row) => Number(published(row)[0]?.hostPort) || undefined, cell: (row) => <PortLinks container={row} /> },
  { id: "uptime", title: t.containers.uptime, width: "76px", from: 860, end: true, value: (row) => (isRunning(row) ? -(seconds(row.status?.startedAt) ?? 0) : undefined), cell: (row) => (isRunning(row) || row.status?.status === "paused" ? <Age time={row.status?.startedAt} /> : <span class="muted" title={dateTime(row.status?.finishedAt)}>–</span>) },
  { id: "cpu", title: t.containers.cpu, width: "66px", from: 560, end: true, value: (row) => containerFigures.latest.value[row.metadata.name]?.cpu, cell: (row) => <Cpu id={row.metadata.name} running={isRunning(row)} /> },
  { id: "memory", title: t.containers.memory, width: "82px", from: 560, end: true, value: (row) => containerFigures.latest.value[row.metadata.name]?.memory, cell: (row) => <Memory id={row.metadata.name} running={isRunning(row)} /> },
];

export const ALLOWED: Record<string, (container: Container) => boolean> = {
  start: ({ status }) => ["created", "exited"].includes(status?.status ?? ""),
  stop: ({ status }) => ["running", "paused", "restarting"].includes(status?.status ?? ""),
  pause: isRunning,
  unpause: ({ status }) => status?.status === "paused",
  restart: isRunning,
};

/** Act on all; the first error is reported after all have ended. */
export async function actOnAll(rows: readonly Container[], action: string): Promise<void> {
  const results = await Promise.allSettled(rows.map((row) => act(row, action)));
  const failed = results.find((result) => result.status === "rejected");
  if (failed) throw failed.reason;
}

export async function deleteAll(rows: readonly Container[]): Promise<boolean> {
  const running = rows.filter((row) => isRunning(row)).length;
  const items = rows.map((row) => row.status?.name ?? row.metadata.name);
  if (!(await ask({ title: t.containers.deleteTitle(rows.length), text: t.containers.deleteText(running), items, action: t.delete }))) return false;
  await Promise.all(rows.map((row) => remove(resources.containers, row)));
  return true;
}

function action(id: "start" | "stop" | "pause" | "unpause" | "restart", icon: Action<Container>["icon"], inline = false): Action<Container> {
  return { id, title: t.containers.actions[id], icon, inline, allowed: ALLOWED[id] as (row: Container) => boolean, run: (rows) => actOnAll(rows, id) };
}

const READ_ACTIONS: readonly Action<Container>[] = [
  { id: "logs", title: t.containers.actions.logs, icon: "log", single: true, run: ([row]) => row && go("containers", row.metadata.name, "logs") },
];

const ACTIONS: readonly Action<Container>[] = [
  action("start", "play", true),
  action("stop", "stop", true),
  action("restart", "restart"),
  action("pause", "pause"),
  action("unpause", "play"),
  ...READ_ACTIONS,
  { id: "terminal", title: t.containers.actions.terminal, icon: "terminal", single: true, allowed: isRunning, run: ([row]) => row && go("containers", row.metadata.name, "terminal") },
  { id: "delete", title: t.delete, icon: "trash", danger: true, inline: true, run: (rows) => deleteAll(rows) },
];

const OPEN = { id: "open", title: t.containers.actions.open, icon: "right", single: true, run: ([row]: readonly Container[]) => row && go("containers", row.metadata.name) } as const;

const user = Symbol("container list");

function ContainerList() {
  const all = useList(stores.containers);
  const [system, setSystem] = useState(false);
  const hidden = useMemo(() => all.filter(isSystem).length, [all]);
  const rows = useMemo(() => (system ? all : all.filter((each) => !isSystem(each))), [all, system]);
  const writes = session.value?.role !== "viewer";
  const show = useCallback((visible: readonly Container[]) => containerFigures.show(user, visible.filter(isRunning).map((row) => row.metadata.name)), []);
  useEffect(() => () => containerFigures.show(user, []), []);
  const grouped = rows.some((row) => groupOf(row).key !== "");
  const engineReady = condition(app.value, "ContainerEngineReady")?.status === "True";
  const extra = (
    <>
      {hidden > 0 && <label class="check"><input type="checkbox" checked={system} onChange={(event) => setSystem(event.currentTarget.checked)} />{t.containers.showSystem} ({hidden})</label>}
      {writes && isServed(resources.containerCreates) && <Button kind="primary" icon="plus" onClick={() => openCreate()}>{t.containers.create}</Button>}
    </>
  );
  return (
    <Table
      label={t.containers.title}
      rows={rows}
      keyOf={keyOf}
      nameOf={(row) => row.status?.name ?? row.metadata.name}
      columns={COLUMNS}
      textOf={(row) => [row.status?.name, imageName(row), row.status?.status, row.metadata.name, row.status?.portSummary, groupOf(row).title]}
      {...(grouped ? { groupOf } : {})}
      actions={[OPEN, ...(writes ? ACTIONS : logsAllowed.value ? READ_ACTIONS : [])]}
      href={(row) => link("containers", row.metadata.name)}
      state={stores.containers.state.value}
      problem={stores.containers.problem.value}
      empty={<Empty icon="box" title={t.containers.empty}><p>{engineReady ? t.containers.emptyText : t.containers.engineStopped}</p></Empty>}
      extra={extra}
      onVisible={show}
      sortBy="state"
    />
  );
}
