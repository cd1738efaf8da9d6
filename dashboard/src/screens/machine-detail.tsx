// SPDX-License-Identifier: Apache-2.0
// One machine: conditions, its disk with snapshots if the driver has one, and its logs.

import { get } from "../api/kube.ts";
import { stores } from "../api/stores.ts";
import { condition, keyOf } from "../api/objects.ts";
import { ApiError, session } from "../api/session.ts";
import { restartMachine, suspendMachine } from "../api/requests.ts";
import type { LimaVM } from "../api/types.ts";
import { link } from "../router.ts";
import { t } from "../texts.ts";
import { Age, Button, Card, Command, Empty, Fact, Facts, SmallTable, Spinner, Tabs } from "../ui/controls.tsx";
import { useList, useLoad, type Loaded } from "../ui/hooks.ts";
import { LogChooser, type LogNames } from "./logs.tsx";
import { MachineDisk, diskPath, type Disk } from "./machine-disk.tsx";
import { StateOf, isOfApp, reset, run } from "./machines.tsx";

const DRIVER = "lima.rancherdesktop.io/driver";
const driverOf = (machine: LimaVM) => machine.metadata.annotations?.[DRIVER] ?? "";

/** The disk of a machine; undefined if its driver manages none, or it is not created yet. */
async function diskOf(name: string): Promise<Disk | undefined> {
  try {
    return await get<Disk>(diskPath(name));
  } catch (error) {
    if (error instanceof ApiError && (error.code === 400 || error.code === 404)) return undefined;
    throw error;
  }
}

export function MachineDetail({ id, tab }: { id: string; tab: string }) {
  const machine = useList(stores.limaVMs).find((each) => keyOf(each) === id);
  useList(stores.apps);
  if (!machine && stores.limaVMs.state.value === "loading") return <div class="empty"><Spinner /></div>;
  if (!machine) return <Empty icon="machine" title={t.machines.gone}><a href={link("machines")}>{t.machines.back}</a></Empty>;
  return <Detail machine={machine} tab={tab} />;
}

function Detail({ machine, tab }: { machine: LimaVM; tab: string }) {
  const writes = session.value?.role !== "viewer";
  const { namespace: space = "", name } = machine.metadata;
  const state = condition(machine, "Running")?.reason;
  const disk = useLoad(async () => (writes ? diskOf(name) : undefined), state, machine.metadata.uid);
  const hasDisk = disk.value !== undefined || (tab === "disk" && (disk.loading || disk.error !== undefined));
  const names = ["info", ...(hasDisk ? ["disk"] : []), ...(writes ? ["logs"] : [])];
  const current = names.includes(tab) ? tab : "info";
  return (
    <div class="detail">
      <div class="detail-head">
        <a class="back" href={link("machines")} aria-label={t.machines.back}>←</a>
        <h2>{name}</h2>
        <StateOf machine={machine} />
        {disk.value?.suspended && !machine.spec.running && <span class="muted">{t.machines.suspended}</span>}
        <span class="gap" />
        {writes && <Actions machine={machine} disk={disk.value} />}
      </div>
      <Tabs label={t.machines.title} tabs={names.map((each) => ({ id: each, title: t.machines.tabs[each] ?? each }))} current={current} href={(each) => link("machines", space, name, each)} />
      <div class="detail-body" key={current}><Body machine={machine} tab={current} disk={disk} /></div>
    </div>
  );
}

function Body({ machine, tab, disk }: { machine: LimaVM; tab: string; disk: Loaded<Disk | undefined> }) {
  const { namespace: space = "", name } = machine.metadata;
  if (tab === "logs") return <MachineLogs space={space} name={name} />;
  if (tab === "disk") return <MachineDisk machine={machine} loaded={disk} />;
  return <MachineInfo machine={machine} />;
}

function Actions({ machine, disk }: { machine: LimaVM; disk: Disk | undefined }) {
  const { actions } = t.machines;
  const isRunning = condition(machine, "Running")?.status === "True";
  return (
    <div class="buttons">
      {!machine.spec.running && <Button small icon="play" onClick={() => run(machine, true)}>{disk?.suspended ? actions.resume : actions.start}</Button>}
      {machine.spec.running && <Button small icon="stop" onClick={() => run(machine, false)}>{actions.stop}</Button>}
      {machine.spec.running && <Button small icon="restart" onClick={() => restartMachine(machine)}>{actions.restart}</Button>}
      {isRunning && machine.spec.running && disk && !isOfApp(machine) && <Button small icon="pause" onClick={() => suspendMachine(machine)}>{actions.suspend}</Button>}
      <Button small kind="danger" icon="undo" onClick={() => reset(machine)}>{actions.reset}</Button>
    </div>
  );
}

function MachineInfo({ machine }: { machine: LimaVM }) {
  const { status } = machine;
  const limits = status?.resourceLimits;
  const limited = [limits?.cpus && t.home.cpus(limits.cpus), limits?.memory, limits?.message].filter(Boolean).join(", ");
  return (
    <div class="cards">
      <Card title={t.machines.summary}>
        <Facts>
          <Fact name={t.machines.name}>{machine.metadata.namespace}/{machine.metadata.name}</Fact>
          {driverOf(machine) && <Fact name={t.home.driver}>{driverOf(machine)}</Fact>}
          <Fact name={t.machines.starts}>{status?.restartCount ?? 0}</Fact>
          <Fact name={t.machines.age}><Age time={machine.metadata.creationTimestamp} /></Fact>
          {limited && <Fact name={t.machines.limits}>{limited}</Fact>}
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
