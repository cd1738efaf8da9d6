// SPDX-License-Identifier: Apache-2.0
// Ports of this machine that lead into containers and machines, with owner and state.

import { useMemo } from "preact/hooks";
import { app, stores } from "../api/stores.ts";
import { condition } from "../api/objects.ts";
import type { Container, LimaVM } from "../api/types.ts";
import { link } from "../router.ts";
import { portUrl, published } from "../state.ts";
import { t } from "../texts.ts";
import { Badge, Empty, type Tone } from "../ui/controls.tsx";
import { useList } from "../ui/hooks.ts";
import { Table, type Column } from "../ui/table.tsx";

interface Port {
  key: string;
  hostIP: string;
  hostPort: string;
  port: string;
  protocol: string;
  owner: string;
  href: string;
  state: string;
  tone: Tone;
}

/** All published ports; a port that another program uses is marked. */
export function portsOf(containers: readonly Container[], machines: readonly LimaVM[], kubernetesPort: number, kubernetesReady: boolean): Port[] {
  const taken = new Set(machines.flatMap((each) => each.status?.unavailablePorts ?? []).map(String));
  const ports = containers.flatMap((container) =>
    published(container).map((port): Port => {
      const running = container.status?.status === "running";
      const lost = running && taken.has(port.hostPort);
      return {
        key: `${port.hostIP}:${port.hostPort}/${port.protocol} ${container.metadata.name}`,
        ...port,
        owner: container.status?.name ?? container.metadata.name,
        href: link("containers", container.metadata.name),
        state: lost ? t.ports.unavailable : running ? t.ports.open : t.ports.stopped,
        tone: lost ? "bad" : running ? "good" : "idle",
      };
    }),
  );
  if (kubernetesPort) {
    ports.push({ key: "kubernetes", hostIP: "127.0.0.1", hostPort: String(kubernetesPort), port: "6443", protocol: "tcp", owner: t.ports.kubernetes, href: link("kubernetes"), state: kubernetesReady ? t.ports.open : t.ports.stopped, tone: kubernetesReady ? "good" : "idle" });
  }
  return ports;
}

const COLUMNS: readonly Column<Port>[] = [
  { id: "host", title: t.ports.host, width: "minmax(110px, 1fr)", value: (row) => Number(row.hostPort), cell: (row) => (row.protocol === "tcp" && row.tone === "good" ? <a href={portUrl(row)} target="_blank" rel="noopener noreferrer" title={t.ports.openLink(row.hostPort)}>{row.hostIP || "*"}:{row.hostPort}</a> : <span>{row.hostIP || "*"}:{row.hostPort}</span>) },
  { id: "container", title: t.ports.container, width: "minmax(90px, 1fr)", from: 480, value: (row) => Number(row.port), cell: (row) => `${row.port}/${row.protocol}` },
  { id: "owner", title: t.ports.owner, width: "minmax(90px, 2fr)", value: (row) => row.owner, cell: (row) => <a class="name" href={row.href}><bdi>{row.owner}</bdi></a> },
  { id: "state", title: t.ports.state, width: "minmax(90px, 1.4fr)", value: (row) => row.state, cell: (row) => <Badge tone={row.tone}>{row.state}</Badge> },
];

export function Ports() {
  const containers = useList(stores.containers);
  const machines = useList(stores.limaVMs);
  useList(stores.apps);
  const kubernetes = app.value?.spec?.kubernetes?.enabled ? (app.value.status?.kubernetesPort ?? 0) : 0;
  const ready = condition(app.value, "KubernetesReady")?.status === "True";
  const rows = useMemo(() => portsOf(containers, machines, kubernetes, ready), [containers, machines, kubernetes, ready]);
  return (
    <Table
      label={t.ports.title}
      rows={rows}
      keyOf={(row) => row.key}
      nameOf={(row) => `${row.hostPort} ${row.owner}`}
      columns={COLUMNS}
      textOf={(row) => [row.hostIP, row.hostPort, row.port, row.protocol, row.owner, row.state]}
      href={(row) => row.href}
      state={stores.containers.state.value}
      problem={stores.containers.problem.value}
      empty={<Empty icon="port" title={t.ports.empty}><p>{t.ports.emptyText}</p></Empty>}
    />
  );
}
