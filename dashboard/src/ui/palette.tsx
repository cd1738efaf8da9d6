// SPDX-License-Identifier: Apache-2.0
// The command palette and the list of keys.

import { useState } from "preact/hooks";
import { Dialog } from "./dialog.tsx";
import { Icon, type IconName } from "./icons.tsx";
import { useList } from "./hooks.ts";
import { helpOpen, paletteOpen } from "./keyboard.ts";
import { part } from "./lazy.tsx";
import { report } from "./toasts.tsx";
import { act, setRunning } from "../api/requests.ts";
import { download, resources } from "../api/kube.ts";
import { condition } from "../api/objects.ts";
import { app, isServed, stores } from "../api/stores.ts";
import { openCreate } from "../screens/container-create.tsx";
import { stopApp } from "../power.ts";
import { session } from "../api/session.ts";
import { matches } from "../format.ts";
import { go } from "../router.ts";
import { t } from "../texts.ts";

interface Entry {
  title: string;
  icon: IconName;
  run: () => unknown;
}

type ScreenId = keyof typeof t.screens;

function entriesOf(screens: readonly { id: ScreenId; icon: IconName }[]): Entry[] {
  const entries: Entry[] = screens.map(({ id, icon }) => ({ title: t.palette.go(t.screens[id]), icon, run: () => go(id) }));
  const writes = session.value?.role !== "viewer";
  if (writes && app.value?.spec?.running) entries.push({ title: t.palette.stop, icon: "stop", run: stopApp });
  else if (writes) entries.push({ title: t.palette.start, icon: "play", run: () => setRunning(true) });
  if (writes && condition(app.value, "ContainerEngineReady")?.status === "True") entries.push(...engineEntries());
  if (writes) entries.push({ title: t.logs.bundle, icon: "download", run: () => download("/service/bundle") });
  for (const container of stores.containers.items.value) {
    const name = container.status?.name ?? container.metadata.name;
    const running = container.status?.status === "running";
    entries.push({ title: t.palette.container(name), icon: "box", run: () => go("containers", container.metadata.name) });
    entries.push({ title: `${t.containers.actions.logs}: ${name}`, icon: "log", run: () => go("containers", container.metadata.name, "logs") });
    if (!writes) continue;
    const action = running ? "stop" : "start";
    entries.push({ title: `${t.containers.actions[action]} ${name}`, icon: running ? "stop" : "play", run: () => act(container, action) });
  }
  return entries;
}

function engineEntries(): Entry[] {
  const entries: Entry[] = [{ title: t.containers.create, icon: "plus", run: () => openCreate() }];
  entries.push({ title: t.images.pullTitle, icon: "download", run: async () => (await part(() => import("../screens/images.tsx"))).openPull() });
  if (isServed(resources.imageBuilds)) entries.push({ title: t.images.buildTitle, icon: "layers", run: async () => (await part(() => import("../screens/images.tsx"))).openBuild() });
  return entries;
}

export function Palette({ screens }: { screens: readonly { id: ScreenId; icon: IconName }[] }) {
  return paletteOpen.value ? <OpenPalette screens={screens} /> : null;
}

function OpenPalette({ screens }: { screens: readonly { id: ScreenId; icon: IconName }[] }) {
  const [filter, setFilter] = useState("");
  const [at, setAt] = useState(0);
  useList(stores.containers);
  const found = entriesOf(screens).filter((entry) => matches(filter, entry.title)).slice(0, 30);
  const close = () => void (paletteOpen.value = false);
  const run = (entry: Entry | undefined) => {
    close();
    Promise.resolve(entry?.run()).catch(report);
  };
  const keys = (event: KeyboardEvent) => {
    if (event.key === "ArrowDown") setAt(Math.min(found.length - 1, at + 1));
    else if (event.key === "ArrowUp") setAt(Math.max(0, at - 1));
    else if (event.key === "Enter") run(found[at]);
    else return;
    event.preventDefault();
  };
  return (
    <Dialog title={t.palette.title} onClose={close} name="palette">
      <input type="text" autofocus role="combobox" aria-expanded="true" aria-controls="palette-list" aria-activedescendant={found.length > 0 ? `palette-${at}` : undefined} aria-label={t.palette.placeholder} placeholder={t.palette.placeholder} value={filter} onKeyDown={keys} onInput={(event) => {
        setFilter(event.currentTarget.value);
        setAt(0);
      }} />
      <ul id="palette-list" role="listbox" aria-label={t.palette.title}>
        {found.map((entry, index) => (
          <li key={entry.title} id={`palette-${index}`} role="option" aria-selected={index === at} onClick={() => run(entry)} onPointerMove={() => setAt(index)}>
            <Icon name={entry.icon} /><bdi>{entry.title}</bdi>
          </li>
        ))}
      </ul>
      {found.length === 0 && <p class="none">{t.palette.none}</p>}
    </Dialog>
  );
}

export function Help() {
  if (!helpOpen.value) return null;
  return (
    <Dialog title={t.help.title} onClose={() => void (helpOpen.value = false)}>
      <dl class="keys">{t.help.keys.map(([keys, text]) => <div key={keys}><dt><kbd>{keys}</kbd></dt><dd>{text}</dd></div>)}</dl>
    </Dialog>
  );
}
