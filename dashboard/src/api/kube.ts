// SPDX-License-Identifier: Apache-2.0
// Requests to the Kubernetes API below /k8s.

import type { KubeObject } from "./objects.ts";
import { json, request, ticket, ApiError } from "./session.ts";

export interface Resource {
  readonly group: string; // "" is the core group
  readonly version: string;
  readonly plural: string;
  readonly kind: string;
}

function rdd(group: string, kind: string, plural = `${kind.toLowerCase()}s`): Resource {
  return { group: `${group}.rancherdesktop.io`, version: "v1alpha1", plural, kind };
}

export const resources = {
  apps: rdd("app", "App"),
  diagnostics: rdd("app", "Diagnostic"),
  limaVMs: rdd("lima", "LimaVM"),
  containers: rdd("containers", "Container"),
  containerCreates: rdd("containers", "ContainerCreateRequest"),
  images: rdd("containers", "Image"),
  imagePulls: rdd("containers", "ImagePullRequest"),
  imagePushes: rdd("containers", "ImagePushRequest"),
  imageScans: rdd("containers", "ImageScanRequest"),
  imageBuilds: rdd("containers", "ImageBuildRequest"),
  imageTags: rdd("containers", "ImageTagRequest"),
  volumes: rdd("containers", "Volume"),
  volumeCreates: rdd("containers", "VolumeCreateRequest"),
  networks: rdd("containers", "Network"),
  networkCreates: rdd("containers", "NetworkCreateRequest"),
  hostInfos: rdd("rdd", "HostInfo"),
  snapshots: rdd("rdd", "Snapshot"),
  checkouts: rdd("rdd", "Checkout"),
  fetchables: rdd("rdd", "Resource"),
  urlMonitors: rdd("rdd", "URLMonitor"),
  accessReviews: { group: "authorization.k8s.io", version: "v1", plural: "selfsubjectaccessreviews", kind: "SelfSubjectAccessReview" },
  configMaps: { group: "", version: "v1", plural: "configmaps", kind: "ConfigMap" },
  events: { group: "events.k8s.io", version: "v1", plural: "events", kind: "Event" },
} as const satisfies Record<string, Resource>;

export function groupPath(resource: Resource): string {
  return resource.group ? `/apis/${resource.group}/${resource.version}` : `/api/${resource.version}`;
}

/** The path of a collection or an object. */
export function pathOf(resource: Resource, namespace?: string, name?: string): string {
  const scope = namespace ? `/namespaces/${encodeURIComponent(namespace)}` : "";
  const object = name ? `/${encodeURIComponent(name)}` : "";
  return `${groupPath(resource)}${scope}/${resource.plural}${object}`;
}

function send<T>(method: string, path: string, body: unknown, type: string): Promise<T> {
  return json<T>(`/k8s${path}`, { method, headers: { "Content-Type": type }, body: JSON.stringify(body) });
}

export function get<T>(path: string): Promise<T> {
  return json<T>(`/k8s${path}`);
}

export function create<T extends KubeObject>(resource: Resource, namespace: string | undefined, body: object): Promise<T> {
  const manifest = { apiVersion: resource.group ? `${resource.group}/${resource.version}` : resource.version, kind: resource.kind, ...body };
  return send<T>("POST", `${pathOf(resource, namespace)}?fieldManager=dashboard`, manifest, "application/json");
}

/** Create a request object with a generated name. */
export function createRequest<T extends KubeObject>(resource: Resource, namespace: string, spec: object): Promise<T> {
  return create<T>(resource, namespace, { metadata: { generateName: "dashboard-" }, spec });
}

export function mergePatch<T>(resource: Resource, obj: KubeObject, patch: object, dryRun = false): Promise<T> {
  const path = pathOf(resource, obj.metadata.namespace, obj.metadata.name);
  const query = `?fieldManager=dashboard&fieldValidation=Strict${dryRun ? "&dryRun=All" : ""}`;
  return send<T>("PATCH", path + query, patch, "application/merge-patch+json");
}

export function annotate(resource: Resource, obj: KubeObject, annotations: Record<string, string | null>): Promise<unknown> {
  return mergePatch(resource, obj, { metadata: { annotations } });
}

export async function remove(resource: Resource, obj: KubeObject): Promise<void> {
  const path = pathOf(resource, obj.metadata.namespace, obj.metadata.name);
  const preconditions = obj.metadata.uid ? { preconditions: { uid: obj.metadata.uid } } : {};
  try {
    await send("DELETE", path, { kind: "DeleteOptions", apiVersion: "v1", ...preconditions }, "application/json");
  } catch (error) {
    if (!(error instanceof ApiError && error.code === 404)) throw error;
  }
}

export function engine(path: string): string {
  return `/passthrough/engine/${path}`;
}

export function post<T>(path: string): Promise<T> {
  return json<T>(`/k8s${path}`, { method: "POST" });
}

export function erase<T>(path: string): Promise<T> {
  return json<T>(`/k8s${path}`, { method: "DELETE" });
}

export async function upload(path: string, body: Blob): Promise<void> {
  await json(`/k8s${path}`, { method: "PUT", body, headers: { "Content-Type": "application/x-tar" } });
}

export async function text(path: string, signal?: AbortSignal): Promise<Response> {
  const reply = await request(`/k8s${path}`, signal ? { signal } : {});
  if (reply.ok) return reply;
  const body = await reply.text();
  let status = {};
  try {
    status = JSON.parse(body) as object;
  } catch {
    status = { message: body.slice(0, 500) };
  }
  throw new ApiError({ ...status, code: reply.status });
}

/** Let the browser download a path of the API. */
export async function download(path: string): Promise<void> {
  const link = document.createElement("a");
  link.href = await ticket(`/k8s${path}`);
  link.download = "";
  document.body.append(link);
  link.click();
  link.remove();
}
