// SPDX-License-Identifier: Apache-2.0
// One container: a tab for each way to look at it.

import { app, logsAllowed, paused, stores } from "../api/stores.ts";
import { engine, get } from "../api/kube.ts";
import { session } from "../api/session.ts";
import type { Container } from "../api/types.ts";
import { dateTime, shortId } from "../format.ts";
import { go, link } from "../router.ts";
import { imageName } from "../state.ts";
import { t } from "../texts.ts";
import { Button, Card, Copy, Empty, Fact, Facts, Problem, SmallTable, Spinner, Tabs } from "../ui/controls.tsx";
import { useList, useLoad } from "../ui/hooks.ts";
import { lazily } from "../ui/lazy.tsx";
import { ALLOWED, PortLinks, StateBadge, deleteAll, isRunning } from "./containers.tsx";
import { act } from "../api/requests.ts";
import { Stats } from "./container-stats.tsx";
import { Files } from "./files.tsx";
import { LogView } from "./log-view.tsx";

const Terminal = lazily(async () => (await import("./terminal.tsx")).Terminal);

const TABS = ["info", "logs", "terminal", "stats", "processes", "inspect", "files"] as const;

export function ContainerDetail({ id, tab }: { id: string; tab: string }) {
  const container = useList(stores.containers).find((each) => each.metadata.name === id);
  if (!container && stores.containers.state.value === "loading") return <div class="empty"><Spinner /></div>;
  if (!container) return <Empty icon="box" title={t.containers.gone}><a href={link("containers")}>{t.containers.back}</a></Empty>;
  const writes = session.value?.role !== "viewer";
  // containerd has none of the streams; a viewer sees figures, and logs if a binding allows them
  const docker = app.value?.spec?.containerEngine?.name !== "containerd";
  const names = docker ? TABS.filter((each) => writes || each === "info" || each === "stats" || (each === "logs" && logsAllowed.value)) : ["info"];
  return (
    <div class="detail">
      <div class="detail-head">
        <a class="back" href={link("containers")} aria-label={t.containers.back}>←</a>
        <h2><bdi>{container.status?.name}</bdi></h2>
        <StateBadge container={container} />
        <span class="gap" />
        {writes && <Actions container={container} />}
      </div>
      <Tabs label={t.containers.title} tabs={names.map((name) => ({ id: name, title: t.containers.tabs[name] ?? name }))} current={tab} href={(name) => link("containers", id, name)} />
      <div class={`detail-body ${tab}`} key={tab}>
        <Body container={container} tab={names.some((name) => name === tab) ? tab : "info"} />
      </div>
    </div>
  );
}

function Actions({ container }: { container: Container }) {
  const button = (action: "start" | "stop" | "pause" | "unpause" | "restart", icon: "play" | "stop" | "pause" | "restart") =>
    ALLOWED[action]?.(container) && <Button key={action} small icon={icon} onClick={() => act(container, action)}>{t.containers.actions[action]}</Button>;
  const erase = async () => {
    if (await deleteAll([container])) go("containers");
  };
  return (
    <div class="buttons">
      {button("start", "play")}
      {button("unpause", "play")}
      {button("stop", "stop")}
      {button("restart", "restart")}
      {button("pause", "pause")}
      <Button small kind="danger" icon="trash" onClick={erase}>{t.delete}</Button>
    </div>
  );
}

function Body({ container, tab }: { container: Container; tab: string }) {
  const id = container.metadata.name;
  switch (tab) {
    case "logs":
      return <LogView path={engine(`logs/${id}`)} active={isRunning(container)} round={container.status?.startedAt ?? ""} timestamps />;
    case "terminal":
      return isRunning(container) ? <Terminal id={id} /> : <Empty icon="terminal" title={t.terminal.notRunning} />;
    case "stats":
      if (paused.value) return <Empty icon="pause" title={t.health.paused}><p>{t.health.pausedText(paused.value)}</p></Empty>;
      return isRunning(container) ? <Stats id={id} /> : <Empty icon="pulse" title={t.stats.notRunning} />;
    case "processes":
      return isRunning(container) ? <Processes id={id} /> : <Empty icon="pulse" title={t.processes.notRunning} />;
    case "inspect":
      return <Inspect id={id} version={container.metadata.resourceVersion ?? ""} />;
    case "files":
      return <Files list={(path) => engine(`files/${id}?path=${encodeURIComponent(path)}`)} archive={(path) => engine(`archive/${id}?path=${encodeURIComponent(path)}`)} />;
    default:
      return <Info container={container} />;
  }
}

interface Inspected {
  Path?: string;
  Args?: string[];
  Config?: { Env?: string[]; Cmd?: string[] | null; Entrypoint?: string[] | null; WorkingDir?: string; User?: string };
  HostConfig?: { RestartPolicy?: { Name?: string }; CapAdd?: string[] | null; CapDrop?: string[] | null };
  Mounts?: { Type: string; Name?: string; Source: string; Destination: string; RW: boolean }[];
  NetworkSettings?: { Networks?: Record<string, { IPAddress?: string; GlobalIPv6Address?: string; Gateway?: string; Aliases?: string[] | null }> };
}

function inspectPath(id: string): string {
  return engine(`${session.value?.role === "viewer" ? "details" : "inspect"}/${id}`);
}

function Info({ container }: { container: Container }) {
  const { status } = container;
  const { value, error, loading, reload } = useLoad(() => get<Inspected>(inspectPath(container.metadata.name)), container.metadata.name, status?.startedAt, status?.status);
  const text = t.containers.info;
  const labels = Object.entries(status?.labels ?? {});
  return (
    <div class="cards info">
      <Card title={text.summary}>
        <Facts>
          <Fact name={text.id} copyable={container.metadata.name}><code>{shortId(container.metadata.name)}</code></Fact>
          <Fact name={t.containers.image}><bdi>{imageName(container)}</bdi></Fact>
          <Fact name={text.imageId} copyable={status?.image}><code>{shortId(status?.image)}</code></Fact>
          <Fact name={text.created}>{dateTime(status?.createdAt)}</Fact>
          <Fact name={text.started}>{dateTime(status?.startedAt)}</Fact>
          {!isRunning(container) && <Fact name={text.finished}>{dateTime(status?.finishedAt)}</Fact>}
          {!isRunning(container) && <Fact name={text.exitCode}>{status?.exitCode ?? "–"}</Fact>}
          {status?.health && <Fact name={text.health}>{status.health}</Fact>}
          {status?.error && <Fact name={text.error}>{status.error}</Fact>}
          <Fact name={text.command}><code>{[status?.path, ...(status?.args ?? [])].join(" ")}</code></Fact>
          {value?.Config?.WorkingDir && <Fact name={text.workingDirectory}><code>{value.Config.WorkingDir}</code></Fact>}
          {value?.Config?.User && <Fact name={text.user}>{value.Config.User}</Fact>}
          {value?.HostConfig?.RestartPolicy?.Name && <Fact name={text.restartPolicy}>{value.HostConfig.RestartPolicy.Name}</Fact>}
          <Fact name={t.containers.ports}><PortLinks container={container} all /></Fact>
        </Facts>
      </Card>
      {error && <Problem error={error} retry={reload} />}
      {loading && !value && <Spinner />}
      {value && (
        <>
          <Card title={text.networks}>
            <SmallTable label={text.networks} head={text.networkHead} rows={Object.entries(value.NetworkSettings?.Networks ?? {}).map(([name, network]) => [name, network.IPAddress || network.GlobalIPv6Address || "–", network.Gateway || "–", (network.Aliases ?? []).join(", ")])} />
          </Card>
          <Card title={text.mounts} wide>
            <SmallTable label={text.mounts} head={text.mountHead} rows={(value.Mounts ?? []).map((mount) => [mount.Type, <code key="s">{mount.Name ?? mount.Source}</code>, <code key="d">{mount.Destination}</code>, mount.RW ? text.readWrite : text.readOnly])} />
          </Card>
          <Card title={text.environment} wide>
            <SmallTable label={text.environment} head={text.variable} rows={(value.Config?.Env ?? []).map((line) => {
              const at = line.indexOf("=");
              const [name, content] = at < 0 ? [line, undefined] : [line.slice(0, at), line.slice(at + 1)];
              return [<code key="n">{name}</code>, content === undefined ? <span key="v" class="muted">{text.hidden}</span> : <span key="v" class="with-copy"><code>{content}</code><Copy text={content} label={t.copyOf(name)} /></span>];
            })} />
          </Card>
          {((value.HostConfig?.CapAdd?.length ?? 0) > 0 || (value.HostConfig?.CapDrop?.length ?? 0) > 0) && (
            <Card title={text.capabilities}>
              <Facts>
                <Fact name={text.added}>{(value.HostConfig?.CapAdd ?? []).join(", ") || t.none}</Fact>
                <Fact name={text.dropped}>{(value.HostConfig?.CapDrop ?? []).join(", ") || t.none}</Fact>
              </Facts>
            </Card>
          )}
        </>
      )}
      <Card title={text.labels} wide>
        <SmallTable label={text.labels} head={text.labelHead} rows={labels.map(([name, content]) => [<code key="n">{name}</code>, <code key="v">{content}</code>])} />
      </Card>
    </div>
  );
}

interface Top {
  titles: string[];
  processes: string[][];
}

function Processes({ id }: { id: string }) {
  const { value, error, loading, reload } = useLoad(() => get<Top>(engine(`top/${id}`)), id);
  return (
    <div class="pad">
      <Button small icon="restart" onClick={reload}>{t.refresh}</Button>
      {error && <Problem error={error} retry={reload} />}
      {loading && !value && <Spinner />}
      {value && <SmallTable label={t.containers.tabs["processes"] ?? ""} head={value.titles} rows={value.processes} />}
    </div>
  );
}

function Inspect({ id, version }: { id: string; version: string }) {
  const { value, error, loading, reload } = useLoad(() => get<unknown>(inspectPath(id)), id, version);
  if (error) return <Problem error={error} retry={reload} />;
  if (loading && value === undefined) return <div class="empty"><Spinner /></div>;
  const text = JSON.stringify(value, null, 2);
  return (
    <div class="inspect">
      <Copy text={text} />
      <pre tabIndex={0} aria-label={t.inspect.label}>{text}</pre>
    </div>
  );
}
