// SPDX-License-Identifier: Apache-2.0
// Images: the list, and the transfers and builds that change it.

import { useMemo } from "preact/hooks";
import { createRequest, remove, resources } from "../api/kube.ts";
import { isServed, namespace, stores } from "../api/stores.ts";
import { isTrue, keyOf } from "../api/objects.ts";
import { session } from "../api/session.ts";
import type { Container, Image } from "../api/types.ts";
import { fulfil } from "../api/requests.ts";
import { bytes, seconds, shortId } from "../format.ts";
import { splitReference } from "../state.ts";
import { t } from "../texts.ts";
import { Age, Button, Empty } from "../ui/controls.tsx";
import { ask } from "../ui/dialog.tsx";
import { openForm } from "../ui/forms.tsx";
import { useList } from "../ui/hooks.ts";
import { Table, type Action, type Column } from "../ui/table.tsx";
import { lines, openCreate, parseMap } from "./container-create.tsx";
import { openPrune } from "./prune.tsx";
import { Transfers } from "./transfers.tsx";

export function Images() {
  const images = useList(stores.images);
  const containers = useList(stores.containers);
  const writes = session.value?.role !== "viewer";
  const users = useMemo(() => usersOf(containers), [containers]);
  const columns = useMemo(() => columnsFor(users), [users]);
  // an image with several tags is several objects and one size
  const total = useMemo(() => [...new Map(images.map((each) => [each.status?.id, each.status?.size ?? 0])).values()].reduce((sum, size) => sum + size, 0), [images]);
  const extra = (
    <>
      <span class="count">{t.images.total(bytes(total))}</span>
      {writes && images.length > 0 && <Button onClick={openPrune}>{t.home.prune}</Button>}
      {writes && isServed(resources.imageBuilds) && <Button onClick={openBuild}>{t.images.build}</Button>}
      {writes && <Button kind="primary" icon="download" onClick={openPull}>{t.images.pull}</Button>}
    </>
  );
  return (
    <>
      <Transfers />
      <Table
        label={t.images.title}
        rows={images}
        keyOf={keyOf}
        nameOf={nameOf}
        columns={columns}
        textOf={(row) => [row.status?.repoTag, row.status?.id]}
        actions={writes ? actionsFor(users) : []}
        state={stores.images.state.value}
        problem={stores.images.problem.value}
        empty={<Empty icon="layers" title={t.images.empty}><p>{t.images.emptyText}</p></Empty>}
        extra={extra}
      />
    </>
  );
}

export function nameOf(image: Image): string {
  return image.status?.repoTag ?? shortId(image.status?.id);
}

/** Names of the containers of each image ID. */
function usersOf(containers: readonly Container[]): ReadonlyMap<string, string[]> {
  const users = new Map<string, string[]>();
  for (const { status } of containers) {
    if (!status) continue;
    const names = users.get(status.image) ?? [];
    names.push(status.name);
    users.set(status.image, names);
  }
  return users;
}

function columnsFor(users: ReadonlyMap<string, string[]>): Column<Image>[] {
  const used = (row: Image) => users.get(row.status?.id ?? "") ?? [];
  return [
    { id: "name", title: t.images.name, width: "minmax(140px, 3fr)", value: nameOf, cell: (row) => <bdi class="name" title={row.status?.repoTag}>{row.status?.repoTag ? splitReference(row.status.repoTag)[0] : <span class="muted">{t.images.untagged}</span>}</bdi> },
    { id: "tag", title: t.images.tag, width: "minmax(70px, 1fr)", value: (row) => splitReference(row.status?.repoTag ?? "")[1], cell: (row) => <bdi>{splitReference(row.status?.repoTag ?? "")[1]}</bdi> },
    { id: "id", title: t.images.id, width: "120px", from: 720, cell: (row) => <code title={row.status?.id}>{shortId(row.status?.id)}</code> },
    { id: "used", title: t.images.usedBy, width: "minmax(90px, 1fr)", from: 600, value: (row) => used(row).length, cell: (row) => (isTrue(row, "Removed") || row.metadata.deletionTimestamp ? <span class="badge warn" title={used(row).join(", ")}>{t.images.waiting}</span> : used(row).length > 0 ? <span title={used(row).join(", ")}>{t.images.inUse(used(row).length)}</span> : <span class="muted">{t.images.unused}</span>) },
    { id: "created", title: t.images.created, width: "80px", from: 520, end: true, value: (row) => -(seconds(row.status?.createdAt) ?? 0), cell: (row) => <Age time={row.status?.createdAt} /> },
    { id: "size", title: t.images.size, width: "86px", end: true, value: (row) => row.status?.size, cell: (row) => <span title={`${row.status?.size ?? 0} B`}>{bytes(row.status?.size)}</span> },
  ];
}

function actionsFor(users: ReadonlyMap<string, string[]>): Action<Image>[] {
  const request = (resource: typeof resources.imagePushes | typeof resources.imageScans) => async (rows: readonly Image[]) => {
    await Promise.all(rows.map((row) => createRequest(resource, row.metadata.namespace ?? namespace.value, { imageRef: row.metadata.name })));
  };
  const tagged = (row: Image) => Boolean(row.status?.repoTag);
  return [
    { id: "run", title: t.images.run, icon: "play", inline: true, single: true, run: ([row]) => row && openCreate(row.status?.repoTag ?? row.status?.id) },
    { id: "push", title: t.images.push, icon: "upload", allowed: (row) => tagged(row) && (row.status?.repoTag ?? "").includes("/"), run: request(resources.imagePushes) },
    ...(isServed(resources.imageTags) ? [{ id: "tag", title: t.images.tagAction, icon: "tag", single: true, run: ([row]: readonly Image[]) => row && openTag(row) } as const] : []),
    { id: "scan", title: t.images.scan, icon: "shield", run: request(resources.imageScans) },
    {
      id: "delete", title: t.delete, icon: "trash", danger: true, inline: true,
      run: async (rows) => {
        const used = rows.filter((row) => users.has(row.status?.id ?? ""));
        const items = rows.map((row) => {
          const names = users.get(row.status?.id ?? "");
          return names ? `${nameOf(row)} (${names.slice(0, 5).join(", ")})` : nameOf(row);
        });
        if (await ask({ title: t.images.deleteTitle(rows.length), text: t.images.deleteText(used.length), items, action: t.delete })) {
          await Promise.all(rows.map((row) => remove(resources.images, row)));
        }
      },
    },
  ];
}

export function openPull(): void {
  openForm({
    title: t.images.pullTitle,
    action: t.images.pull,
    fields: [{ name: "reference", label: t.images.reference, required: true, placeholder: "nginx:latest" }],
    submit: (values) => createRequest(resources.imagePulls, namespace.value, { repoTag: values["reference"] }),
  });
}

export function openBuild(): void {
  openForm({
    title: t.images.buildTitle,
    action: t.images.build,
    fields: [
      { name: "context", label: t.images.context, required: true, placeholder: "/home/me/project" },
      { name: "tags", label: t.images.tags, placeholder: "example:latest" },
      { name: "dockerfile", label: t.images.dockerfile, placeholder: "Dockerfile" },
      { name: "target", label: t.images.target },
      { name: "args", label: t.images.args, hint: t.images.argsHint, kind: "lines" },
      { name: "noCache", label: t.images.noCache, kind: "checkbox" },
    ],
    submit: (values) => {
      const args = parseMap(lines(values["args"]));
      const spec: Record<string, unknown> = { context: values["context"] };
      if (values["tags"]) spec["tags"] = values["tags"].split(/[\s,]+/);
      if (values["dockerfile"]) spec["dockerfile"] = values["dockerfile"];
      if (values["target"]) spec["target"] = values["target"];
      if (Object.keys(args).length > 0) spec["args"] = args;
      if (values["noCache"]) spec["noCache"] = true;
      return createRequest(resources.imageBuilds, namespace.value, spec);
    },
  });
}

function openTag(image: Image): void {
  openForm({
    title: t.images.tagTitle(nameOf(image)),
    action: t.images.verbs["tag"] ?? "",
    fields: [{ name: "repoTag", label: t.images.newTag, required: true, initial: image.status?.repoTag ?? "" }],
    submit: (values) => fulfil(resources.imageTags, stores.imageTags, { imageRef: image.metadata.name, repoTag: values["repoTag"] }),
  });
}
