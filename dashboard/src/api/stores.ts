// SPDX-License-Identifier: Apache-2.0
// The lists of the page, one of each, and which resources the daemon serves.

import { computed, signal } from "@preact/signals";
import { Collection } from "./collection.ts";
import { create, engine, get, groupPath, pathOf, resources, type Resource } from "./kube.ts";
import { condition, type ConfigMap, type Event, type KubeObject } from "./objects.ts";
import { session } from "./session.ts";
import { connection, multiplexer } from "./socket.ts";
import type { App, Checkout, Container, ContainerCreateRequest, Diagnostic, HostInfo, Image, ImageBuildRequest, ImagePullRequest, ImagePushRequest, ImageScanRequest, ImageTagRequest, LimaVM, Network, NetworkCreateRequest, Resource as Fetchable, Snapshot, URLMonitor, Volume, VolumeCreateRequest } from "./types.ts";

function list<T extends KubeObject>(resource: Resource, query = ""): Collection<T> {
  return new Collection<T>(pathOf(resource), multiplexer, query);
}

export const stores = {
  apps: list<App>(resources.apps),
  diagnostics: list<Diagnostic>(resources.diagnostics),
  limaVMs: list<LimaVM>(resources.limaVMs),
  containers: list<Container>(resources.containers),
  containerCreates: list<ContainerCreateRequest>(resources.containerCreates),
  images: list<Image>(resources.images),
  imagePulls: list<ImagePullRequest>(resources.imagePulls),
  imagePushes: list<ImagePushRequest>(resources.imagePushes),
  imageScans: list<ImageScanRequest>(resources.imageScans),
  imageBuilds: list<ImageBuildRequest>(resources.imageBuilds),
  imageTags: list<ImageTagRequest>(resources.imageTags),
  volumes: list<Volume>(resources.volumes),
  volumeCreates: list<VolumeCreateRequest>(resources.volumeCreates),
  networks: list<Network>(resources.networks),
  networkCreates: list<NetworkCreateRequest>(resources.networkCreates),
  hostInfos: list<HostInfo>(resources.hostInfos),
  snapshots: list<Snapshot>(resources.snapshots),
  checkouts: list<Checkout>(resources.checkouts),
  fetchables: list<Fetchable>(resources.fetchables),
  urlMonitors: list<URLMonitor>(resources.urlMonitors),
  events: list<Event>(resources.events),
  history: new Collection<ConfigMap>("/api/v1/namespaces/rdd-system/configmaps", multiplexer, "fieldSelector=metadata.name%3Dapp-history"),
  profile: new Collection<ConfigMap>("/api/v1/namespaces/rdd-system/configmaps", multiplexer, "fieldSelector=metadata.name%3Dprofile"),
  k3sVersions: new Collection<ConfigMap>("/api/v1/configmaps", multiplexer, "fieldSelector=metadata.name%3Dk3s-versions"),
};

/** The App, which is a singleton. */
export const app = computed<App | undefined>(() => stores.apps.items.value.find((each) => each.metadata.name === "app"));

/** Why the machine of the App is paused; undefined while it runs or is stopped. */
export const paused = computed<string | undefined>(() => {
  const found = condition(app.value, "Paused");
  return found?.status === "True" ? found.message : undefined;
});

/** The namespace of the mirrored objects. */
export const namespace = computed(() => app.value?.spec?.namespace || "default");

/** Plurals that the daemon serves, by group; undefined before they are known. */
export const served = signal<ReadonlySet<string> | undefined>(undefined);

interface ResourceList {
  resources: { name: string }[];
}

/** Read which resources are served; on every connection, because a daemon may have been updated. */
export async function discover(): Promise<void> {
  const found = new Set<string>();
  const groups = [...new Set(Object.values(resources).map(groupPath))].filter((path) => path.includes("rancherdesktop"));
  await Promise.all(
    groups.map(async (path) => {
      const reply = await get<ResourceList>(path).catch(() => undefined);
      const group = path.split("/")[2];
      for (const { name } of reply?.resources ?? []) found.add(`${group}/${name}`);
    }),
  );
  if (found.size > 0) served.value = found;
}

export function isServed(resource: Resource): boolean {
  return served.value?.has(`${resource.group}/${resource.plural}`) ?? false;
}

/** Whether the session may read the logs of containers: an administrator, or a viewer with `rdd:viewer-logs`. */
export const logsAllowed = signal(false);

async function discoverRights(): Promise<void> {
  const spec = { nonResourceAttributes: { path: engine("logs/any"), verb: "get" } };
  const reply = await create<Review>(resources.accessReviews, undefined, { spec }).catch(() => undefined);
  logsAllowed.value = reply?.status?.allowed ?? false;
}

interface Review extends KubeObject {
  status?: { allowed: boolean };
}

connection.subscribe((state) => {
  if (state !== "online") return;
  void discover();
  if (session.value?.role === "viewer") void discoverRights();
  else logsAllowed.value = true;
});
