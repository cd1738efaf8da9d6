// SPDX-License-Identifier: Apache-2.0
// Machines: LimaVMs with their state, actions and logs.

import { annotate, get, mergePatch, remove, resources } from "../api/kube.ts";
import { stores, namespace } from "../api/stores.ts";
import { condition, keyOf } from "../api/objects.ts";
import { session } from "../api/session.ts";
import { restartMachine } from "../api/requests.ts";
import type { LimaVM } from "../api/types.ts";
import { go, link, route } from "../router.ts";
import { t } from "../texts.ts";
import { Age, Badge, Button, Card, Command, Empty, Fact, Facts, SmallTable, Spinner, Tabs, type Tone } from "../ui/controls.tsx";
import { ask } from "../ui/dialog.tsx";
import { useList, useLoad } from "../ui/hooks.ts";
import { Table, type Action, type Column } from "../ui/table.tsx";
import { LogChooser, type LogNames } from "./logs.tsx";

export function Machines() {
  const [space, name, tab] = route.value.parts;
  return space && name ? <MachineDetail id={`${space}/${name}`} tab={tab ?? "info"} /> : <MachineList />;
}

function toneOf(machine: LimaVM): Tone {
  if (condition(machine, "Degraded")?.status === "True") return "warn";
  const running = condition(machine, "Running");
  if (running?.status === "True") return "good";
  if (machine.status?.failure || /Failed$/.test(running?.reason ?? "")) return "bad";
  return running?.reason === "Stopped" && !machine.spec.running ? "idle" : "busy";
}

function StateOf({ machine }: { machine: LimaVM }) {
  const running = condition(machine, "Running") ?? condition(machine, "Created");
  return <Badge tone={toneOf(machine)} title={condition(machine, "Degraded")?.message ?? running?.message}>{condition(machine, "Degraded")?.reason ?? running?.reason ?? "–"}</Badge>;
}

const isOfApp = (machine: LimaVM) => machine.metadata.name === "rd" && machine.metadata.namespace === namespace.value;

const COLUMNS: readonly Column<LimaVM>[] = [
  { id: "name", title: t.machines.name, width: "minmax(110px, 1.5fr)", value: (row) => row.metadata.name, cell: (row) => <a class="name" href={link("machines", row.metadata.namespace ?? "", row.metadata.name)}><bdi>{row.metadata.name}</bdi>{isOfApp(row) && <span class="muted"> · {t.machines.ofApp}</span>}</a> },
  { id: "state", title: t.machines.state, width: "minmax(96px, 1fr)", value: (row) => condition(row, "Running")?.reason, cell: (row) => <StateOf machine={row} /> },
  { id: "message", title: t.machines.message, width: "minmax(120px, 2.5fr)", from: 640, cell: (row) => <span title={condition(row, "Running")?.message}>{condition(row, "Running")?.message}</span> },
  { id: "starts", title: t.machines.starts, width: "64px", from: 560, end: true, value: (row) => row.status?.restartCount, cell: (row) => row.status?.restartCount ?? 0 },
  { id: "age", title: t.machines.age, width: "72px", from: 480, end: true, value: (row) => row.metadata.creationTimestamp, cell: (row) => <Age time={row.metadata.creationTimestamp} /> },
];

/** The machine of the App follows the App; others have a switch of their own. */
async function run(machine: LimaVM, running: boolean): Promise<void> {
  if (!running && !(await ask({ title: t.health.stopTitle, text: t.machines.stopText, action: t.health.stop }))) return;
  const owner = isOfApp(machine) ? stores.apps.items.value[0] : undefined;
  if (owner) await mergePatch(resources.apps, owner, { spec: { running } });
  else await mergePatch(resources.limaVMs, machine, { spec: { running } });
}

async function reset(machine: LimaVM): Promise<void> {
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

function MachineDetail({ id, tab }: { id: string; tab: string }) {
  const machine = useList(stores.limaVMs).find((each) => keyOf(each) === id);
  useList(stores.apps);
  if (!machine && stores.limaVMs.state.value === "loading") return <div class="empty"><Spinner /></div>;
  if (!machine) return <Empty icon="machine" title={t.machines.gone}><a href={link("machines")}>{t.machines.back}</a></Empty>;
  const writes = session.value?.role !== "viewer";
  const names = writes ? ["info", "logs"] : ["info"];
  const [space = "", name = ""] = id.split("/");
  return (
    <div class="detail">
      <div class="detail-head">
        <a class="back" href={link("machines")} aria-label={t.machines.back}>←</a>
        <h2>{machine.metadata.name}</h2>
        <StateOf machine={machine} />
        <span class="gap" />
        {writes && (
          <div class="buttons">
            {machine.spec.running ? <Button small icon="stop" onClick={() => run(machine, false)}>{t.machines.actions.stop}</Button> : <Button small icon="play" onClick={() => run(machine, true)}>{t.machines.actions.start}</Button>}
            {machine.spec.running && <Button small icon="restart" onClick={() => restartMachine(machine)}>{t.machines.actions.restart}</Button>}
          </div>
        )}
      </div>
      <Tabs label={t.machines.title} tabs={names.map((each) => ({ id: each, title: t.machines.tabs[each] ?? each }))} current={tab} href={(each) => link("machines", space, name, each)} />
      <div class="detail-body" key={tab}>{tab === "logs" && writes ? <MachineLogs space={space} name={name} /> : <MachineInfo machine={machine} />}</div>
    </div>
  );
}

function MachineInfo({ machine }: { machine: LimaVM }) {
  const { status } = machine;
  const limits = status?.resourceLimits;
  return (
    <div class="cards">
      <Card title={t.machines.title}>
        <Facts>
          <Fact name={t.machines.name}>{machine.metadata.namespace}/{machine.metadata.name}</Fact>
          <Fact name={t.machines.starts}>{status?.restartCount ?? 0}</Fact>
          <Fact name={t.machines.age}><Age time={machine.metadata.creationTimestamp} /></Fact>
          {limits && <Fact name={t.machines.limits}>{[limits.cpus && t.home.cpus(limits.cpus), limits.memory, limits.message].filter(Boolean).join(", ") || t.none}</Fact>}
        </Facts>
        {status?.failure?.remedy && <Command text={status.failure.remedy} />}
      </Card>
      <Card title={t.machines.conditions} wide>
        <SmallTable label={t.machines.conditions} head={t.machines.conditionHead} rows={(status?.conditions ?? []).map((each) => [each.type, each.status, each.reason, each.message, <Age key="a" time={each.lastTransitionTime} />])} />
      </Card>
    </div>
  );
}

function MachineLogs({ space, name }: { space: string; name: string }) {
  const path = `/passthrough/limavm/logs/${encodeURIComponent(space)}/${encodeURIComponent(name)}`;
  const loaded = useLoad(() => get<LogNames>(path), path);
  return <LogChooser loaded={loaded} pathOf={(log) => `${path}/${encodeURIComponent(log)}`} />;
}
