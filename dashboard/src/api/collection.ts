// SPDX-License-Identifier: Apache-2.0
// A list of objects that follows the API: the store behind every table.
//
// It is subscribed while a component uses it, keeps its objects afterwards, and resumes with its
// resourceVersion. Objects are shown as stale, not removed, while the connection is lost.

import { signal, type ReadonlySignal, type Signal } from "@preact/signals";
import type { KubeObject, Status } from "./objects.ts";
import { keyOf } from "./objects.ts";
import { whenVisible } from "../clock.ts";
import type { Message, Subscriber } from "./socket.ts";

export type ListState = "loading" | "live" | "stale" | "absent" | "error";

export interface WatchEvent<T> {
  type: "ADDED" | "MODIFIED" | "DELETED";
  object: T;
}

/** What a collection needs of the connection; a test gives another one. */
export interface Connector {
  subscribe(subscriber: Subscriber): () => void;
  renew(subscriber: Subscriber): void;
}

const KEEP_MS = 30_000; // a list that another screen shows soon again stays subscribed

export class Collection<T extends KubeObject> implements Subscriber {
  readonly path: string;
  private readonly query: string;
  private readonly connector: Connector;
  private readonly objects = new Map<string, T>();
  private staged: Map<string, T> | undefined;
  private version: string | undefined;
  private users = 0;
  private unsubscribe: (() => void) | undefined;
  private ending: ReturnType<typeof setTimeout> | undefined;
  private retry = 1000;
  private readonly list: Signal<readonly T[]> = signal([]);
  private readonly stateSignal: Signal<ListState> = signal<ListState>("loading");
  readonly problem = signal<Status | undefined>(undefined);

  constructor(path: string, connector: Connector, query = "") {
    this.path = path;
    this.connector = connector;
    this.query = query;
  }

  get items(): ReadonlySignal<readonly T[]> {
    return this.list;
  }

  get state(): ReadonlySignal<ListState> {
    return this.stateSignal;
  }

  find(key: string): T | undefined {
    return this.objects.get(key);
  }

  /** Follow the list until the returned function is called. */
  use(): () => void {
    this.users += 1;
    clearTimeout(this.ending);
    this.unsubscribe ??= this.connector.subscribe(this);
    return () => {
      this.users -= 1;
      if (this.users > 0) return;
      this.ending = setTimeout(() => this.end(), KEEP_MS);
    };
  }

  private end(): void {
    this.unsubscribe?.();
    this.unsubscribe = undefined;
    if (this.stateSignal.value === "live") this.stateSignal.value = "stale";
  }

  request(): Record<string, unknown> {
    const resume = this.version ? { resourceVersion: this.version } : {};
    const query = this.query ? { query: this.query } : {};
    // resumed: only changes follow, and an error if that is not possible
    if (this.version) this.stateSignal.value = "live";
    return { op: "watch", path: this.path, ...query, ...resume };
  }

  receive(message: Message): void {
    switch (message.type) {
      case "SYNC":
        return this.sync(message);
      case "EVENTS":
        return this.apply(message);
      case "ERROR":
        return this.failed(message.status ?? {});
      case "END":
        return this.again(1000);
    }
  }

  disconnected(): void {
    this.staged = undefined;
    if (this.stateSignal.value === "live") this.stateSignal.value = "stale";
  }

  private sync(message: Message): void {
    this.staged ??= new Map();
    for (const object of message["items"] as T[]) this.staged.set(keyOf(object), object);
    if (message["more"]) return;
    this.objects.clear();
    for (const [key, object] of this.staged) this.objects.set(key, object);
    this.staged = undefined;
    this.settled(message, true);
  }

  private apply(message: Message): void {
    const events = message["events"] as WatchEvent<T>[];
    for (const { type, object } of events) {
      if (type === "DELETED") this.objects.delete(keyOf(object));
      else this.objects.set(keyOf(object), object);
    }
    this.settled(message, events.length > 0);
  }

  private settled(message: Message, changed: boolean): void {
    this.version = message["resourceVersion"] as string | undefined;
    this.retry = 1000;
    this.problem.value = undefined;
    if (changed) this.list.value = [...this.objects.values()];
    this.stateSignal.value = "live";
  }

  private failed(status: Status): void {
    this.staged = undefined;
    if (status.code === 410 || status.code === 504) {
      this.version = undefined;
      return this.again(0);
    }
    this.problem.value = status;
    this.stateSignal.value = status.code === 404 ? "absent" : this.version ? "stale" : "error";
    if (status.code === 404) {
      this.objects.clear();
      this.version = undefined;
      this.list.value = [];
    }
    this.retry = Math.min(this.retry * 2, 60_000);
    this.again(this.retry);
  }

  private again(delay: number): void {
    setTimeout(() => whenVisible(() => this.unsubscribe && this.connector.renew(this)), delay);
  }
}
