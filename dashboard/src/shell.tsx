// SPDX-License-Identifier: Apache-2.0
// The frame of all screens: side bar, title, connection, status bar, dialogs.

import { useEffect, useRef, useState } from "preact/hooks";
import type { ComponentType } from "preact";
import { app, isServed, served, stores } from "./api/stores.ts";
import { resources } from "./api/kube.ts";
import { connection, lastProblem, lostAt, multiplexer, retryAt } from "./api/socket.ts";
import { logout, session } from "./api/session.ts";
import { condition } from "./api/objects.ts";
import { link, route } from "./router.ts";
import { health, isFailed, isMuted } from "./state.ts";
import { t } from "./texts.ts";
import { Button, Command, Empty, Progress, Spinner } from "./ui/controls.tsx";
import { Dialogs } from "./ui/dialog.tsx";
import { useList, useNow } from "./ui/hooks.ts";
import { Icon, Logo, type IconName } from "./ui/icons.tsx";
import { Menus } from "./ui/menu.tsx";
import { Help, Palette } from "./ui/palette.tsx";
import { paletteOpen } from "./ui/keyboard.ts";
import { Toasts } from "./ui/toasts.tsx";
import { duration } from "./format.ts";
import { Home } from "./screens/home.tsx";
import { Containers } from "./screens/containers.tsx";
import { lazily } from "./ui/lazy.tsx";

interface Screen {
  id: keyof typeof t.screens;
  icon: IconName;
  component: ComponentType;
  present: () => boolean;
}

const always = () => true;

const admin = () => session.value?.role !== "viewer";

export const SCREENS: readonly Screen[] = [
  { id: "home", icon: "home", component: Home, present: always },
  { id: "containers", icon: "box", component: Containers, present: () => isServed(resources.containers) },
  { id: "images", icon: "layers", component: lazily(async () => (await import("./screens/images.tsx")).Images), present: () => isServed(resources.images) },
  { id: "volumes", icon: "disk", component: lazily(async () => (await import("./screens/volumes.tsx")).Volumes), present: () => isServed(resources.volumes) },
  { id: "networks", icon: "network", component: lazily(async () => (await import("./screens/networks.tsx")).Networks), present: () => isServed(resources.networks) },
  { id: "ports", icon: "port", component: lazily(async () => (await import("./screens/ports.tsx")).Ports), present: () => isServed(resources.containers) },
  { id: "machines", icon: "machine", component: lazily(async () => (await import("./screens/machines.tsx")).Machines), present: () => isServed(resources.limaVMs) },
  { id: "snapshots", icon: "camera", component: lazily(async () => (await import("./screens/snapshots.tsx")).Snapshots), present: () => isServed(resources.snapshots) && admin() },
  { id: "kubernetes", icon: "wheel", component: lazily(async () => (await import("./screens/kubernetes.tsx")).Kubernetes), present: () => isServed(resources.apps) },
  { id: "settings", icon: "gear", component: lazily(async () => (await import("./screens/settings.tsx")).Settings), present: () => isServed(resources.apps) },
  { id: "downloads", icon: "download", component: lazily(async () => (await import("./screens/downloads.tsx")).Downloads), present: () => isServed(resources.checkouts) && admin() },
  { id: "diagnostics", icon: "pulse", component: lazily(async () => (await import("./screens/diagnostics.tsx")).Diagnostics), present: () => isServed(resources.diagnostics) },
  { id: "activity", icon: "clock", component: lazily(async () => (await import("./screens/activity.tsx")).Activity), present: always },
  { id: "logs", icon: "log", component: lazily(async () => (await import("./screens/logs.tsx")).Logs), present: admin },
];

export function Shell() {
  const [open, setOpen] = useState(false);
  const { screen } = route.value;
  const current = SCREENS.find((each) => each.id === screen && (each.present() || !served.value));
  const title = current ? t.screens[current.id] : t.product;
  const main = useRef<HTMLElement>(null);
  useEffect(() => {
    document.title = session.value ? `${title} · ${t.product} ${session.value.instance}` : t.product;
  }, [title, session.value]);
  if (connection.value === "loggedOut" || connection.value === "outdated") return <Refused />;
  return (
    <div class={`shell${open ? " nav-open" : ""}`}>
      <a class="skip" href="#main" onClick={(event) => {
        event.preventDefault();
        main.current?.focus();
      }}>{t.skip}</a>
      <header class="top">
        <span class="menu-button"><Button kind="ghost" icon="menu" title={t.menu} pressed={open} onClick={() => setOpen(!open)} /></span>
        <h1>{title}</h1>
        <span class="gap" />
        <Button kind="ghost" icon="search" title={t.palette.open} onClick={() => void (paletteOpen.value = true)} />
        {session.value?.role === "viewer" && <span class="viewer">{t.viewer}</span>}
      </header>
      <SideBar current={screen} onChosen={() => setOpen(false)} />
      <main id="main" ref={main} tabIndex={-1}>
        <Disconnected />
        {current ? <current.component key={current.id} /> : served.value ? <Empty title={t.unknownScreen} /> : <div class="empty"><Spinner /></div>}
      </main>
      <StatusBar />
      <Dialogs />
      <Menus />
      <Palette screens={SCREENS.filter((each) => each.present()).map(({ id, icon }) => ({ id, icon }))} />
      <Help />
      <Toasts />
    </div>
  );
}

function SideBar({ current, onChosen }: { current: string; onChosen: () => void }) {
  const failed = isServed(resources.diagnostics) ? <Failed /> : null;
  return (
    <nav class="side" aria-label={t.navigation}>
      <div class="brand"><Logo size={22} /><b>{t.product}</b><span>{session.value?.instance}</span></div>
      {SCREENS.filter((each) => each.present()).map(({ id, icon }) => (
        <a key={id} href={link(id)} onClick={onChosen} aria-current={id === current ? "page" : undefined}>
          <Icon name={icon} />
          <span>{t.screens[id]}</span>
          {id === "diagnostics" && failed}
        </a>
      ))}
      <span class="gap" />
      <button type="button" onClick={() => void logout().then(() => location.reload())}><Icon name="lock" /><span>{t.connection.logout}</span></button>
    </nav>
  );
}

function Failed() {
  const count = useList(stores.diagnostics).filter((each) => isFailed(each) && !isMuted(each)).length;
  return count > 0 ? <b class="nav-badge" title={t.diagnostics.failed(count)}>{count}</b> : null;
}

/** The banner above a page that keeps what was shown before the connection was lost. */
function Disconnected() {
  const state = connection.value;
  if (state === "connecting" && !lostAt.value) return null;
  if (lostAt.value === undefined) return <Updated />;
  return <Lost since={lostAt.value} />;
}

function Lost({ since }: { since: number }) {
  const now = useNow();
  const seconds = retryAt.value ? Math.max(0, Math.ceil(retryAt.value / 1000 - now)) : 0;
  if (connection.value === "connecting" && now - since / 1000 < 2) return null;
  return (
    <div class="banner warn" role="alert">
      <Icon name="warning" />
      <div>
        <p>{t.connection.lost(duration(now - since / 1000))} {seconds > 1 && t.connection.retrying(seconds)}</p>
        {now - since / 1000 > 5 && <p class="muted">{t.connection.stopped} <code>rdd service start</code> {lastProblem.value && <small>({lastProblem.value})</small>}</p>}
      </div>
      <Button onClick={() => multiplexer.retryNow()}>{t.connection.retryNow}</Button>
    </div>
  );
}

/** The daemon serves another build than the one this page was loaded from. */
function Updated() {
  const own = document.querySelector<HTMLMetaElement>("meta[name=rdd-build]")?.content;
  const build = session.value?.build;
  if (!own || !build || own === build) return null;
  return (
    <div class="banner" role="status">
      <p>{t.connection.updated}</p>
      <Button onClick={() => location.reload()}>{t.connection.reload}</Button>
    </div>
  );
}

function Refused() {
  const outdated = connection.value === "outdated";
  return (
    <main class="refused">
      <Logo size={48} />
      <h1>{outdated ? t.connection.outdatedTitle : t.connection.loggedOutTitle}</h1>
      <p>{outdated ? t.connection.outdated : t.connection.loggedOut}</p>
      {outdated ? <Button kind="primary" onClick={() => location.reload()}>{t.connection.reload}</Button> : <Command text="rdd dashboard" />}
    </main>
  );
}

function StatusBar() {
  useList(stores.apps);
  const state = health(app.value);
  const kubernetes = app.value?.spec?.kubernetes;
  const ready = condition(app.value, "KubernetesReady");
  return (
    <footer class="status">
      <span class={`dot ${connection.value === "online" ? "good" : "bad"}`}>{connection.value === "online" ? t.connection.online : connection.value === "connecting" ? t.connection.connecting : t.connection.offline}</span>
      <span>{app.value?.spec?.containerEngine?.name ?? ""}</span>
      <span>{kubernetes ? `${t.home.kubernetes}: ${kubernetes.enabled ? (ready?.status === "True" ? kubernetes.version : ready?.reason) : t.home.off}` : ""}</span>
      <span class="gap" />
      {state.tone === "busy" && <span class="busy-line" title={state.text}><span>{state.text || state.title}</span><Progress value={state.percent} label={state.text || state.title} /></span>}
      <span class="version">{session.value?.version}</span>
    </footer>
  );
}
