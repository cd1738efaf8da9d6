// SPDX-License-Identifier: Apache-2.0
// The disk of a machine: its size, and snapshots, which need a stopped machine.

import { erase, post } from "../api/kube.ts";
import { condition } from "../api/objects.ts";
import type { LimaVM } from "../api/types.ts";
import { bytes, dateTime } from "../format.ts";
import { t } from "../texts.ts";
import { Button, Card, Fact, Facts, Problem, SmallTable, Spinner } from "../ui/controls.tsx";
import { ask } from "../ui/dialog.tsx";
import { openForm } from "../ui/forms.tsx";
import type { Loaded } from "../ui/hooks.ts";
import { notify } from "../ui/toasts.tsx";

/** What `GET /passthrough/limavm/disks/NAME` returns. */
export interface Disk {
  virtualBytes: number;
  actualBytes: number;
  suspended: boolean;
  snapshots: { name: string; creationTime: number }[];
}

export function diskPath(machine: string, ...words: string[]): string {
  return ["/passthrough/limavm/disks", machine, ...words].map((word, index) => (index === 0 ? word : encodeURIComponent(word))).join("/");
}

export function MachineDisk({ machine, loaded }: { machine: LimaVM; loaded: Loaded<Disk | undefined> }) {
  const { value, error, reload } = loaded;
  const text = t.machines.disk;
  const { name } = machine.metadata;
  if (error) return <Problem error={error} retry={reload} />;
  if (!value) return <div class="empty"><Spinner /></div>;
  const isStopped = condition(machine, "Running")?.reason === "Stopped";
  const after = async (work: Promise<unknown>, done: string) => {
    await work;
    notify(done);
    reload();
  };
  const create = () =>
    openForm({
      title: text.create,
      text: text.createText,
      action: t.create,
      fields: [{ name: "name", label: t.machines.name, required: true, initial: suggested(new Date()) }],
      submit: (values) => after(post(diskPath(name, "snapshots", values["name"] ?? "")), text.created),
    });
  const restore = async (snapshot: string) => {
    const text_ = value.suspended ? text.restoreSuspended : text.restoreText;
    if (await ask({ title: text.restoreTitle(snapshot), text: text_, action: text.restore })) await after(post(diskPath(name, "snapshots", snapshot, "restore")), text.restored);
  };
  const remove = async (snapshot: string) => {
    if (await ask({ title: text.deleteTitle(snapshot), text: text.deleteText, action: t.delete })) await after(erase(diskPath(name, "snapshots", snapshot)), text.deleted);
  };
  const rows = value.snapshots.map((each) => [
    <bdi key="n">{each.name}</bdi>,
    dateTime(new Date(each.creationTime * 1000).toISOString()),
    <span key="a" class="buttons">
      <Button small disabled={!isStopped} onClick={() => restore(each.name)}>{text.restore}</Button>
      <Button small kind="ghost" icon="trash" disabled={!isStopped} title={text.deleteOf(each.name)} onClick={() => remove(each.name)} />
    </span>,
  ]);
  return (
    <div class="cards">
      <Card title={text.title}>
        <Facts>
          <Fact name={text.size}>{bytes(value.virtualBytes)}</Fact>
          <Fact name={text.used}>{bytes(value.actualBytes)}</Fact>
        </Facts>
      </Card>
      <Card title={text.snapshots} wide action={<Button small icon="plus" disabled={!isStopped} onClick={create}>{text.create}</Button>}>
        {!isStopped && <p class="muted">{text.needsStop}</p>}
        <SmallTable label={text.snapshots} head={text.head} rows={rows} />
      </Card>
    </div>
  );
}

/** A name made of the time: snapshot-2026-11-19-2015. */
export function suggested(now: Date): string {
  const pad = (value: number) => String(value).padStart(2, "0");
  return `snapshot-${now.getFullYear()}-${pad(now.getMonth() + 1)}-${pad(now.getDate())}-${pad(now.getHours())}${pad(now.getMinutes())}`;
}
