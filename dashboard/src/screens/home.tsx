// SPDX-License-Identifier: Apache-2.0
// Home: one line of health with its next step, and what the machine does.

import { app, isServed, paused, stores } from "../api/stores.ts";
import { machineFigures } from "../api/figures.ts";
import { engine, get, resources } from "../api/kube.ts";
import { condition, keyOf } from "../api/objects.ts";
import { appMachine, retryApp, setRunning } from "../api/requests.ts";
import { restartApp, stopApp } from "../power.ts";
import { session } from "../api/session.ts";
import { bytes, memory, percent } from "../format.ts";
import { link } from "../router.ts";
import { health, isFailed, isMuted } from "../state.ts";
import { t } from "../texts.ts";
import { Badge, Button, Card, Command, Fact, Facts, Meter, Progress, Spinner } from "../ui/controls.tsx";
import { Chart } from "../ui/chart.tsx";
import { useList, useLoad, useMachineFigures } from "../ui/hooks.ts";
import { openPrune } from "./prune.tsx";

export interface Usage {
  images?: Part;
  containers?: Part;
  volumes?: Part & { items?: { name: string; size: number; usedBy?: number }[] };
  buildCache?: Part;
}

interface Part {
  count: number;
  size: number;
  reclaimable: number;
}

export function Home() {
  useList(stores.apps);
  if (stores.apps.state.value === "loading" && !app.value) return <div class="empty"><Spinner /></div>;
  return (
    <div class="page home">
      <HealthLine />
      {isServed(resources.checkouts) && session.value?.role !== "viewer" && <Downloads />}
      <div class="cards">
        <MachineCard />
        <EngineCard />
        <KubernetesCard />
        <DaemonCard />
      </div>
      <FirstCommands />
    </div>
  );
}

function HealthLine() {
  const machines = useList(stores.limaVMs);
  useList(stores.containers);
  const diagnostics = isServed(resources.diagnostics) ? <ProblemLine /> : null;
  const state = health(app.value);
  const writes = session.value?.role !== "viewer";
  const machine = appMachine(machines);
  return (
    <section class={`health ${state.tone}`} aria-label={state.title}>
      <div class="health-line">
        <i aria-hidden="true" />
        <div class="health-text">
          <h2>{state.title}</h2>
          {state.text && <p>{state.text}</p>}
        </div>
        {writes && (
          <div class="buttons">
            {state.next === "retry" && <Button kind="primary" icon="restart" onClick={retryApp}>{t.health.retry}</Button>}
            {state.next === "start" && <Button kind="primary" icon="play" onClick={() => setRunning(true)}>{t.health.start}</Button>}
            {(state.next === "stop" || state.next === "retry") && machine && state.tone !== "busy" && <Button icon="restart" onClick={restartApp}>{t.health.restart}</Button>}
            {(state.next === "stop" || state.next === "retry") && <Button icon="stop" onClick={stopApp}>{t.health.stop}</Button>}
          </div>
        )}
      </div>
      {state.tone === "busy" && <Progress value={state.percent} label={state.title} />}
      {state.remedy && <div class="remedy"><span>{t.health.nextStep}</span><Command text={state.remedy} /></div>}
      {diagnostics}
    </section>
  );
}

/** What is being fetched now. */
function Downloads() {
  const active = useList(stores.checkouts).filter((each) => condition(each, "Ready")?.reason === "Fetching");
  if (active.length === 0) return null;
  return (
    <Card title={t.home.downloads} wide>
      {active.map((each) => {
        const { fetchedBytes = 0, totalBytes, progress } = each.status ?? {};
        return (
          <div key={keyOf(each)} class="download">
            <p><b><bdi>{each.spec.resource}</bdi></b> <span class="muted">{progress}</span></p>
            <Progress value={totalBytes ? fetchedBytes / totalBytes : undefined} label={each.spec.resource} />
          </div>
        );
      })}
    </Card>
  );
}

function ProblemLine() {
  const failed = useList(stores.diagnostics).filter((each) => isFailed(each) && !isMuted(each));
  if (failed.length === 0) return null;
  return (
    <a class="problem-line" href={link("diagnostics")}>
      <Badge tone="warn">{t.home.problems(failed.length)}</Badge>
      <span>{condition(failed[0], "Healthy")?.message}</span>
    </a>
  );
}

function MachineCard() {
  const figures = useMachineFigures();
  const machine = figures?.machine;
  return (
    <Card title={t.home.machine}>
      {machine ? (
        <>
          <Meter label={t.home.cpu} value={machine.cpu} max={100} text={`${percent(machine.cpu)} · ${t.home.cpus(machine.cpus)}`} />
          <Chart label={t.home.cpu} height={40} max={100} format={percent} series={[{ name: t.home.cpu, values: machineFigures.history.map((each) => each.machine.cpu) }]} />
          <Meter label={t.home.memory} value={machine.memoryUsed} max={machine.memory} text={t.home.used(memory(machine.memoryUsed), memory(machine.memory))} />
          <Meter label={t.home.disk} value={machine.diskUsed} max={machine.disk} text={t.home.used(bytes(machine.diskUsed), bytes(machine.disk))} />
        </>
      ) : <Spinner />}
    </Card>
  );
}

function DaemonCard() {
  const daemon = useMachineFigures()?.daemon;
  return (
    <Card title={t.home.daemon}>
      <Facts>
        <Fact name={t.home.version}>{session.value?.version}</Fact>
        <Fact name={t.home.cpu}>{percent(daemon?.cpu)}</Fact>
        <Fact name={t.home.memory}>{memory(daemon?.memory)}</Fact>
      </Facts>
    </Card>
  );
}

function EngineCard() {
  const containers = useList(stores.containers);
  const images = useList(stores.images);
  const volumes = useList(stores.volumes);
  const ready = condition(app.value, "ContainerEngineReady");
  const running = containers.filter((each) => each.status?.status === "running").length;
  return (
    <Card title={t.home.engine} action={<Badge tone={paused.value ? "idle" : ready?.status === "True" ? "good" : ready?.status === "Unknown" ? "busy" : "idle"} title={ready?.message}>{ready?.reason ?? t.home.off}</Badge>}>
      <Facts>
        <Fact name={t.home.engineName}>{app.value?.spec?.containerEngine?.name ?? "–"}</Fact>
        <Fact name={t.home.driver}>{app.value?.status?.virtualMachineType || "–"}</Fact>
        <Fact name={t.home.containers}><a href={link("containers")}>{t.home.runningOf(running, containers.length)}</a></Fact>
        <Fact name={t.home.images}><a href={link("images")}>{images.length}</a></Fact>
        <Fact name={t.home.volumes}><a href={link("volumes")}>{volumes.length}</a></Fact>
      </Facts>
      {ready?.status === "True" && !paused.value && <Reclaimable count={containers.length + images.length + volumes.length} />}
    </Card>
  );
}

/** What a clean-up could free; absent if the engine cannot tell. */
function Reclaimable({ count }: { count: number }) {
  const { value } = useLoad(() => get<Usage>(engine("usage")), count);
  if (!value) return null;
  const total = [value.images, value.containers, value.volumes, value.buildCache].reduce((sum, part) => sum + (part?.reclaimable ?? 0), 0);
  if (total === 0) return null;
  return (
    <p class="reclaimable">
      <span>{t.home.reclaimable(bytes(total))}</span>
      {session.value?.role !== "viewer" && <Button small onClick={openPrune}>{t.home.prune}</Button>}
    </p>
  );
}

function KubernetesCard() {
  const kubernetes = app.value?.spec?.kubernetes;
  const ready = condition(app.value, "KubernetesReady");
  return (
    <Card title={t.home.kubernetes} action={<Badge tone={ready?.status === "True" ? "good" : kubernetes?.enabled ? "busy" : "idle"} title={ready?.message}>{kubernetes?.enabled ? (ready?.reason ?? "") : t.home.off}</Badge>}>
      <Facts>
        <Fact name={t.home.version}>{kubernetes?.version || "–"}</Fact>
        <Fact name={t.home.port}>{app.value?.status?.kubernetesPort || "–"}</Fact>
      </Facts>
      <p><a href={link("kubernetes")}>{t.screens.kubernetes}</a></p>
    </Card>
  );
}

function FirstCommands() {
  const containers = useList(stores.containers);
  if (stores.containers.state.value !== "live" || containers.some((each) => each.status?.status === "running")) return null;
  return (
    <Card title={t.home.first} wide>
      <p>{t.home.firstText}</p>
      {t.home.commands.map((text) => <Command key={text} text={text} />)}
    </Card>
  );
}
