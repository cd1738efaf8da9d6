// SPDX-License-Identifier: Apache-2.0
// Actions on the engine: requests and annotations, followed until the daemon reports the result.

import { effect } from "@preact/signals";
import { Collection } from "./collection.ts";
import { annotate, createRequest, mergePatch, create, resources, type Resource } from "./kube.ts";
import { condition, keyOf, type KubeObject } from "./objects.ts";
import { app, namespace, stores } from "./stores.ts";
import type { App, Container, LimaVM } from "./types.ts";
import { t } from "../texts.ts";

const ACTION = "containers.rancherdesktop.io/action";
const PATIENCE = 120_000;

/** Follow an object until a function returns true, or throws; gives up silently after a while. */
export function follow<T extends KubeObject>(collection: Collection<T>, key: string, done: (obj: T | undefined) => boolean): Promise<void> {
  return new Promise((resolve, reject) => {
    const unuse = collection.use();
    let stop: (() => void) | undefined;
    const finish = (error?: unknown) => {
      clearTimeout(timer);
      unuse();
      queueMicrotask(() => stop?.());
      if (error) reject(error instanceof Error ? error : new Error(String(error)));
      else resolve();
    };
    const timer = setTimeout(() => finish(), PATIENCE);
    stop = effect(() => {
      void collection.items.value;
      try {
        if (done(collection.find(key))) finish();
      } catch (error) {
        finish(error);
      }
    });
  });
}

/** Start, stop, pause, unpause or restart a container; an error has the engine's message. */
export async function act(container: Container, action: string): Promise<void> {
  const before = container.status?.lastAction?.completedAt;
  const patched = await mergePatch<Container>(resources.containers, container, { metadata: { annotations: { [ACTION]: action } } });
  const key = keyOf(container);
  await follow(stores.containers, key, (current) => {
    if (!current) return true; // removed meanwhile
    const last = current.status?.lastAction;
    if (current.metadata.annotations?.[ACTION] || last?.action !== action || last.completedAt === before) return false;
    if (last.state === "Failed") throw new Error(t.containers.lastActionFailed(`${action} ${patched.status?.name ?? ""}`, last.error ?? ""));
    return true;
  });
}

interface Request extends KubeObject {
  status?: { conditions?: { type: string; status: string; reason: string; message: string; lastTransitionTime: string }[] };
}

/** Create a request and wait for its end; an error has the message of the condition. */
export async function fulfil<T extends Request>(resource: Resource, store: Collection<T>, spec: object): Promise<void> {
  const made = await createRequest<T>(resource, namespace.value, spec);
  let seen = false;
  await follow(store, keyOf(made), (current) => {
    if (!current) return seen;
    seen = true;
    const failed = condition(current, "Failed");
    if (failed?.status === "True") throw new Error(failed.message || failed.reason);
    return condition(current, "Complete")?.status === "True";
  });
}

/** Start or stop the machine of the App; creates the App if there is none. */
export async function setRunning(running: boolean): Promise<void> {
  if (app.value) await mergePatch<App>(resources.apps, app.value, { spec: { running } });
  else await create(resources.apps, undefined, { metadata: { name: "app" }, spec: { running } });
}

/** The machine of the App. */
export function appMachine(machines: readonly LimaVM[]): LimaVM | undefined {
  return machines.find((each) => each.metadata.name === "rd" && each.metadata.namespace === namespace.value);
}

export async function restartMachine(machine: LimaVM): Promise<void> {
  await annotate(resources.limaVMs, machine, { "lima.rancherdesktop.io/restartRequested": String(Date.now()) });
}

const STOP_MODE = "lima.rancherdesktop.io/stopMode";

/** Start or stop a machine that is not the App's; a stop clears an earlier request to suspend. */
export async function setMachineRunning(machine: LimaVM, running: boolean): Promise<void> {
  await mergePatch(resources.limaVMs, machine, { metadata: { annotations: { [STOP_MODE]: null } }, spec: { running } });
}

/** Save the memory of a machine and stop it; if that is refused, it runs on and the error has the reason. */
export async function suspendMachine(machine: LimaVM): Promise<void> {
  const written = await mergePatch<LimaVM>(resources.limaVMs, machine, { metadata: { annotations: { [STOP_MODE]: "suspend" } }, spec: { running: false } });
  try {
    await follow(stores.limaVMs, keyOf(machine), (current) => {
      if (!current) return true;
      if ((current.status?.observedGeneration ?? 0) < (written.metadata.generation ?? 0)) return false;
      const running = condition(current, "Running");
      if (running?.reason === "StopFailed") throw new Error(running.message);
      return running?.reason === "Stopped";
    });
  } catch (error) {
    await setMachineRunning(machine, true);
    throw error;
  }
}

/** Retry what failed: a creation, a start, or the search for a driver. */
export async function retryApp(): Promise<void> {
  if (app.value) await annotate(resources.apps, app.value, { "app.rancherdesktop.io/lookAgainRequested": String(Date.now()) });
  const machine = appMachine(stores.limaVMs.items.value);
  if (machine) await annotate(resources.limaVMs, machine, { "lima.rancherdesktop.io/retryRequested": String(Date.now()) });
}
