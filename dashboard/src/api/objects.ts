// SPDX-License-Identifier: Apache-2.0
// The parts of Kubernetes objects that all kinds share.

export interface ObjectMeta {
  name: string;
  namespace?: string;
  uid?: string;
  resourceVersion?: string;
  generation?: number;
  creationTimestamp?: string;
  deletionTimestamp?: string;
  labels?: Record<string, string>;
  annotations?: Record<string, string>;
  finalizers?: string[];
  managedFields?: { manager?: string; operation?: string; time?: string }[];
}

export interface KubeObject {
  apiVersion?: string;
  kind?: string;
  metadata: ObjectMeta;
}

export interface Condition {
  type: string;
  status: string;
  reason: string;
  message: string;
  lastTransitionTime: string;
  observedGeneration?: number;
}

export interface StatusCause {
  reason?: string;
  message?: string;
  field?: string;
}

export interface Status {
  kind?: string;
  status?: string;
  message?: string;
  reason?: string;
  code?: number;
  details?: { causes?: StatusCause[]; name?: string; kind?: string };
}

export interface ConfigMap extends KubeObject {
  data?: Record<string, string>;
}

export interface Event extends KubeObject {
  regarding?: ObjectReference;
  involvedObject?: ObjectReference;
  reason?: string;
  note?: string;
  message?: string;
  type?: string;
  count?: number;
  deprecatedCount?: number;
  firstTimestamp?: string;
  lastTimestamp?: string;
  eventTime?: string;
  series?: { count?: number; lastObservedTime?: string };
  reportingController?: string;
  reportingComponent?: string;
  source?: { component?: string };
}

export interface ObjectReference {
  kind?: string;
  name?: string;
  namespace?: string;
}

type Conditional = { status?: { conditions?: Condition[] } };

/** The condition of a type. */
export function condition(obj: Conditional | undefined, type: string): Condition | undefined {
  return obj?.status?.conditions?.find((each) => each.type === type);
}

/** Whether a condition is True. */
export function isTrue(obj: Conditional | undefined, type: string): boolean {
  return condition(obj, type)?.status === "True";
}

/** The unique key of an object in a list. */
export function keyOf(obj: KubeObject): string {
  return obj.metadata.namespace ? `${obj.metadata.namespace}/${obj.metadata.name}` : obj.metadata.name;
}
