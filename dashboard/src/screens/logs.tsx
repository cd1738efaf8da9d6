// SPDX-License-Identifier: Apache-2.0
// Logs of the daemon and of the machines, and the support bundle.

import { useRef, useState } from "preact/hooks";
import { download, get } from "../api/kube.ts";
import { stores } from "../api/stores.ts";
import { bytes } from "../format.ts";
import { t } from "../texts.ts";
import { Button, Empty, Problem, Spinner } from "../ui/controls.tsx";
import { useList, useLoad, type Loaded } from "../ui/hooks.ts";
import { LogView } from "./log-view.tsx";

export interface LogNames {
  logs: { name: string; size: number; modified: number }[]; // seconds since 1970
}

interface Source {
  title: string;
  path: string;
  size: number;
  modified: number;
}

/** The log that was written last, which is not one that was rotated away. */
export function newest<T extends { size: number; modified: number }>(sources: readonly T[]): T | undefined {
  const filled = sources.filter(({ size }) => size > 0);
  return (filled.length > 0 ? filled : [...sources]).sort((a, b) => b.modified - a.modified)[0];
}

export function Logs() {
  const machines = useList(stores.limaVMs);
  const names = machines.map((each) => `${each.metadata.namespace}/${each.metadata.name}`).join(" ");
  const loaded = useLoad(async () => {
    const sources: Source[] = [];
    const add = (title: string, path: string, { logs }: LogNames) => {
      for (const { name, ...rest } of logs) sources.push({ title: `${title}: ${name}`, path: `${path}/${encodeURIComponent(name)}`, ...rest });
    };
    add(t.logs.daemon, "/service/logs", await get<LogNames>("/service/logs"));
    await Promise.all(
      machines.map(async (each) => {
        const path = `/passthrough/limavm/logs/${encodeURIComponent(each.metadata.namespace ?? "")}/${encodeURIComponent(each.metadata.name)}`;
        const reply = await get<LogNames>(path).catch(() => undefined);
        if (reply) add(t.logs.machine(each.metadata.name), path, reply);
      }),
    );
    return sources;
  }, names);
  return (
    <Sources loaded={loaded}>
      <span class="gap" />
      <Button icon="download" title={t.logs.bundleText} onClick={() => download("/service/bundle")}>{t.logs.bundle}</Button>
    </Sources>
  );
}

/** The logs of one machine. */
export function LogChooser({ loaded, pathOf }: { loaded: Loaded<LogNames>; pathOf: (log: string) => string }) {
  const sources = loaded.value?.logs.map(({ name, ...rest }) => ({ title: name, path: pathOf(name), ...rest }));
  return <Sources loaded={{ ...loaded, value: sources }} />;
}

function Sources({ loaded, children }: { loaded: Loaded<Source[]>; children?: preact.ComponentChildren }) {
  const { value, error, loading, reload } = loaded;
  const [chosen, setChosen] = useState("");
  const first = useRef<string | undefined>(undefined); // stays, whatever is written while it is on screen
  first.current ??= newest(value ?? [])?.path;
  const current = value?.find((each) => each.path === (chosen || first.current)) ?? value?.[0];
  return (
    <div class="logs-screen">
      <div class="toolbar">
        {value && value.length > 0 && (
          <select aria-label={t.logs.source} value={current?.path} onChange={(event) => setChosen(event.currentTarget.value)}>
            {value.map((each) => <option key={each.path} value={each.path}>{each.title} ({bytes(each.size)})</option>)}
          </select>
        )}
        <Button small kind="ghost" icon="restart" title={t.refresh} onClick={reload} />
        {children}
      </div>
      {error && <Problem error={error} retry={reload} />}
      {loading && !value && <div class="empty"><Spinner /></div>}
      {value?.length === 0 && <Empty icon="log" title={t.logs.none} />}
      {current && <LogView key={current.path} path={current.path} active tail="5000" plainHttp />}
    </div>
  );
}
