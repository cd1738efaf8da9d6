// SPDX-License-Identifier: Apache-2.0
// Networks of the engine.

import { remove, resources } from "../api/kube.ts";
import { isServed, stores } from "../api/stores.ts";
import { keyOf } from "../api/objects.ts";
import { session } from "../api/session.ts";
import type { Network } from "../api/types.ts";
import { fulfil } from "../api/requests.ts";
import { seconds } from "../format.ts";
import { t } from "../texts.ts";
import { Age, Button, Empty } from "../ui/controls.tsx";
import { ask } from "../ui/dialog.tsx";
import { openForm } from "../ui/forms.tsx";
import { useList } from "../ui/hooks.ts";
import { notify } from "../ui/toasts.tsx";
import { Table, type Action, type Column } from "../ui/table.tsx";

const BUILT_IN = new Set(["bridge", "host", "none"]);

function usersOf(network: Network): string[] {
  const name = network.status?.name ?? "";
  return stores.containers.items.value.filter((each) => each.status?.networks?.includes(name)).map((each) => each.status?.name ?? "");
}

const COLUMNS: readonly Column<Network>[] = [
  { id: "name", title: t.networks.name, width: "minmax(120px, 2fr)", value: (row) => row.status?.name, cell: (row) => <bdi class="name" title={row.metadata.name}>{row.status?.name}</bdi> },
  { id: "driver", title: t.networks.driver, width: "90px", value: (row) => row.status?.driver, cell: (row) => row.status?.driver },
  { id: "subnets", title: t.networks.subnets, width: "minmax(120px, 1.5fr)", from: 480, value: (row) => (row.status?.subnets ?? []).join(", "), cell: (row) => <code>{(row.status?.subnets ?? []).join(", ")}</code> },
  { id: "gateway", title: t.networks.gateway, width: "120px", from: 800, cell: (row) => <code>{(row.status?.gateways ?? []).join(", ")}</code> },
  { id: "used", title: t.volumes.usedBy, width: "minmax(100px, 1.5fr)", from: 620, value: (row) => usersOf(row).length, cell: (row) => <bdi title={usersOf(row).join(", ")}>{usersOf(row).join(", ")}</bdi> },
  { id: "internal", title: t.networks.internal, width: "76px", from: 900, cell: (row) => (row.status?.internal ? t.yes : t.no) },
  { id: "created", title: t.networks.created, width: "76px", from: 720, end: true, value: (row) => -(seconds(row.status?.createdAt) ?? 0), cell: (row) => <Age time={row.status?.createdAt} /> },
];

const ACTIONS: readonly Action<Network>[] = [
  {
    id: "delete", title: t.delete, icon: "trash", danger: true, inline: true, allowed: (row) => !BUILT_IN.has(row.status?.name ?? ""),
    run: async (rows) => {
      const items = rows.map((row) => row.status?.name ?? "");
      if (await ask({ title: t.networks.deleteTitle(rows.length), text: t.networks.deleteText, items, action: t.delete })) {
        await Promise.all(rows.map((row) => remove(resources.networks, row)));
      }
    },
  },
];

export function Networks() {
  const networks = useList(stores.networks);
  useList(stores.containers);
  const writes = session.value?.role !== "viewer";
  return (
    <Table
      label={t.networks.title}
      rows={networks}
      keyOf={keyOf}
      nameOf={(row) => row.status?.name ?? row.metadata.name}
      columns={COLUMNS}
      textOf={(row) => [row.status?.name, row.status?.driver, ...(row.status?.subnets ?? []), ...usersOf(row)]}
      actions={writes ? ACTIONS : []}
      state={stores.networks.state.value}
      problem={stores.networks.problem.value}
      empty={<Empty icon="network" title={t.networks.empty}><p>{t.networks.emptyText}</p></Empty>}
      extra={writes && isServed(resources.networkCreates) && <Button kind="primary" icon="plus" onClick={openCreateNetwork}>{t.networks.create}</Button>}
    />
  );
}

function openCreateNetwork(): void {
  const { fields } = t.networks;
  openForm({
    title: t.networks.create,
    action: t.create,
    fields: [
      { name: "name", label: fields.name, required: true },
      { name: "driver", label: fields.driver, initial: "bridge", required: true },
      { name: "subnet", label: fields.subnet, placeholder: "172.30.0.0/16" },
      { name: "internal", label: fields.internal, kind: "checkbox" },
    ],
    submit: async (values) => {
      await fulfil(resources.networkCreates, stores.networkCreates, {
        name: values["name"],
        driver: values["driver"],
        ...(values["subnet"] ? { subnet: values["subnet"] } : {}),
        ...(values["internal"] ? { internal: true } : {}),
      });
      notify(t.networks.createdText);
    },
  });
}
