// SPDX-License-Identifier: Apache-2.0
// Conclusions from objects: the one line of health, the state of a container, groups, problems.

import type { Tone } from "./ui/controls.tsx";
import type { Group } from "./ui/rows.ts";
import { condition, isTrue, type Condition } from "./api/objects.ts";
import type { App, Container, Diagnostic } from "./api/types.ts";
import { t } from "./texts.ts";

export interface Health {
  tone: Tone;
  title: string;
  text: string;
  percent?: number | undefined;
  remedy?: string | undefined; // a command for the user
  next: "start" | "stop" | "retry" | undefined; // what a button can do
}

const ORDER = ["Created", "Running", "ContainerEngineReady", "KubernetesReady", "Settled"];
const PROBLEMS = new Set(["NoDriver", "NotOurs", "Refused", "CreateFailed", "StartFailed", "StopFailed", "ConnectFailed", "NotResponding", "MergeFailed", "NotInstalled", "FetchFailed", "NotAllowed", "NamespaceTerminating"]);

/** The condition that describes best why the App is not settled: the newest one that is not True. */
export function blocking(app: App): Condition | undefined {
  const open = (app.status?.conditions ?? []).filter((each) => ORDER.includes(each.type) && each.status !== "True" && each.reason !== "NotApplicable");
  return open.sort((a, b) => b.lastTransitionTime.localeCompare(a.lastTransitionTime) || ORDER.indexOf(a.type) - ORDER.indexOf(b.type))[0];
}

/** A percentage in a text such as "Downloading 42 %"; undefined if there is none. */
export function percentage(text: string): number | undefined {
  const match = /(\d{1,3})(?:\.\d+)?\s?%/.exec(text);
  const value = match ? Number(match[1]) / 100 : undefined;
  return value !== undefined && value <= 1 ? value : undefined;
}

export function health(app: App | undefined): Health {
  if (!app) return { tone: "idle", title: t.health.none, text: t.health.noneText, next: "start" };
  const wanted = app.spec?.running ?? false;
  const settled = condition(app, "Settled");
  const next = wanted ? "stop" : "start";
  if (settled?.status === "True") {
    const degraded = condition(app, "Degraded");
    if (degraded?.status === "True") return { tone: "warn", title: t.health.problem, text: degraded.message, next };
    const pause = condition(app, "Paused");
    if (wanted && pause?.status === "True") return { tone: "idle", title: t.health.paused, text: t.health.pausedText(pause.message), next };
    return wanted ? { tone: "good", title: t.health.running, text: "", next } : { tone: "idle", title: t.health.stopped, text: "", next };
  }
  const cause = blocking(app);
  const text = cause?.message || settled?.message || cause?.reason || "";
  const { failure } = app.status ?? {};
  if (failure || (settled && PROBLEMS.has(settled.reason))) {
    return { tone: "bad", title: t.health.problem, text: settled?.message || text, remedy: failure?.remedy || undefined, next: "retry" };
  }
  const running = isTrue(app, "Running");
  const title = wanted ? (running ? t.health.working : t.health.starting) : t.health.stopping;
  return { tone: "busy", title, text, percent: percentage(text), next };
}

export function containerTone(container: Container): Tone {
  const { status } = container;
  if (status?.lastAction?.state === "Failed") return "bad";
  if (status?.health === "unhealthy") return "bad";
  switch (status?.status) {
    case "running":
      return status.health === "starting" ? "busy" : "good";
    case "paused":
      return "warn";
    case "restarting":
    case "removing":
    case "pausing":
      return "busy";
    case "dead":
      return "bad";
    default:
      return "idle";
  }
}

/** The group of a container: its pod, its compose project, or none. */
export function groupOf(container: Container): Group {
  const labels = container.status?.labels ?? {};
  const pod = labels["io.kubernetes.pod.name"];
  if (pod) {
    const name = `${labels["io.kubernetes.pod.namespace"] ?? ""}/${pod}`;
    return { key: `pod ${name}`, title: t.containers.pod(name), order: 1 };
  }
  const project = labels["com.docker.compose.project"];
  if (project) return { key: `project ${project}`, title: t.containers.project(project), order: 0 };
  return { key: "", title: t.containers.standalone, order: 2 };
}

export function isSystem(container: Container): boolean {
  return container.status?.labels?.["io.kubernetes.pod.namespace"] === "kube-system";
}

export interface Published {
  hostIP: string;
  hostPort: string;
  port: string; // of the container
  protocol: string;
}

/** The published ports of a container, each host port once (IPv4 and IPv6 are one). */
export function published(container: Container): Published[] {
  const found = new Map<string, Published>();
  for (const { name, bindings } of container.status?.ports ?? []) {
    const [port = "", protocol = "tcp"] = name.split("/");
    for (const { hostIP, hostPort } of bindings ?? []) {
      const any = hostIP === "0.0.0.0" || hostIP === "::" || hostIP === "";
      const key = `${any ? "*" : hostIP}:${hostPort}/${protocol}`;
      if (!found.has(key)) found.set(key, { hostIP: any ? "" : hostIP, hostPort, port, protocol });
    }
  }
  return [...found.values()];
}

/** The address that a published TCP port probably serves. */
export function portUrl({ hostIP, hostPort, port }: Published): string {
  const scheme = port === "443" || hostPort === "443" || port === "8443" ? "https" : "http";
  const host = hostIP.includes(":") ? `[${hostIP}]` : hostIP || "localhost";
  return `${scheme}://${host}:${hostPort}`;
}

/** The image as it was given, or a short ID. */
export function imageName(container: Container): string {
  const { imageName: given, image = "" } = container.status ?? {};
  return given || (image.startsWith("sha256:") ? image.slice(7, 19) : image);
}

export const MUTED = "app.rancherdesktop.io/muted";
export const RUN_REQUESTED = "app.rancherdesktop.io/runRequested";

export function isMuted(diagnostic: Diagnostic): boolean {
  return diagnostic.metadata.annotations?.[MUTED] === "true";
}

export function isFailed(diagnostic: Diagnostic): boolean {
  return condition(diagnostic, "Healthy")?.status === "False";
}

export type Fix = "restart" | "retry" | "prune";

/** What the page can do about a failed check. */
export function fixOf(diagnostic: Diagnostic): Fix | undefined {
  const step = diagnostic.status?.nextStep ?? "";
  switch (diagnostic.metadata.name) {
    case "disk":
      return "prune";
    case "app":
      return "retry";
    case "engine":
    case "processes":
    case "kube-context":
      return /\brestart\b/.test(step) ? "restart" : undefined;
    default:
      return undefined;
  }
}

/** "repository" and "tag" of a reference. */
export function splitReference(reference: string): [string, string] {
  const at = reference.lastIndexOf(":");
  return at > reference.lastIndexOf("/") ? [reference.slice(0, at), reference.slice(at + 1)] : [reference, ""];
}
