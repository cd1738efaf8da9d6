// SPDX-License-Identifier: Apache-2.0
// The one WebSocket of the page: subscriptions that survive its reconnects.
//
// The state of the connection is that of the page. While the page is hidden there are no live
// figures, and after a minute no socket: a hidden page costs nothing. Lost connections are
// retried with exponential backoff, at once when the page becomes visible or the machine has a
// network again.

import { signal } from "@preact/signals";
import { SessionError, prove, session, socketUrl } from "./session.ts";
import type { Status } from "./objects.ts";

export type ConnectionState = "connecting" | "online" | "offline" | "loggedOut" | "outdated";

export interface Message {
  id: number;
  type: "SYNC" | "EVENTS" | "STATS" | "HOST" | "ERROR" | "END";
  status?: Status;
  [member: string]: unknown;
}

export interface Subscriber {
  /** The request, made when the connection is there (again); undefined: nothing now. */
  request(): Record<string, unknown> | undefined;
  receive(message: Message): void;
  disconnected?(): void;
}

export const connection = signal<ConnectionState>("connecting");
/** When the connection was lost; undefined while it is there. */
export const lostAt = signal<number | undefined>(undefined);
/** When the next attempt is made. */
export const retryAt = signal<number | undefined>(undefined);
export const lastProblem = signal("");

/** Wait until the page is connected to a daemon that has proved itself. */
export function online(): Promise<void> {
  return new Promise((resolve) => {
    const stop = connection.subscribe((state) => {
      if (state !== "online") return;
      resolve();
      queueMicrotask(() => stop());
    });
  });
}

const HIDDEN_MS = 60_000;
const FIRST_DELAY = 250;
const LAST_DELAY = 10_000;

export class Multiplexer {
  private socket: WebSocket | undefined;
  private nextId = 1;
  private readonly subscribers = new Map<Subscriber, number>();
  private readonly byId = new Map<number, Subscriber>();
  private delay = FIRST_DELAY;
  private timer: number | undefined;
  private hiding: number | undefined;
  private opening = false;

  start(): void {
    document.addEventListener("visibilitychange", () => this.visibilityChanged());
    window.addEventListener("online", () => this.retryNow());
    window.addEventListener("pageshow", () => this.retryNow());
    void this.connect();
  }

  subscribe(subscriber: Subscriber): () => void {
    this.subscribers.set(subscriber, 0);
    this.request(subscriber);
    return () => this.cancel(subscriber);
  }

  /** Send the request of a subscriber (again), under a new id. */
  renew(subscriber: Subscriber): void {
    if (!this.subscribers.has(subscriber)) return;
    this.forget(subscriber);
    this.request(subscriber);
  }

  /** Send another request under the same id, if the subscription exists. */
  replace(subscriber: Subscriber): void {
    const id = this.subscribers.get(subscriber);
    const request = subscriber.request();
    if (id && request) this.send({ id, ...request });
    else this.renew(subscriber);
  }

  retryNow(): void {
    if (this.socket || this.opening || connection.value === "outdated") return;
    this.delay = FIRST_DELAY;
    void this.connect();
  }

  private cancel(subscriber: Subscriber): void {
    this.forget(subscriber);
    this.subscribers.delete(subscriber);
  }

  private forget(subscriber: Subscriber): void {
    const id = this.subscribers.get(subscriber);
    if (!id) return;
    this.byId.delete(id);
    this.subscribers.set(subscriber, 0);
    this.send({ id, op: "cancel" });
  }

  private request(subscriber: Subscriber): void {
    if (this.socket?.readyState !== WebSocket.OPEN) return;
    const request = subscriber.request();
    if (!request) return;
    const id = this.nextId++;
    this.subscribers.set(subscriber, id);
    this.byId.set(id, subscriber);
    this.send({ id, ...request });
  }

  private send(message: object): void {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(message));
  }

  private async connect(): Promise<void> {
    if (this.opening || this.socket) return;
    this.opening = true;
    clearTimeout(this.timer);
    retryAt.value = undefined;
    try {
      if (!session.value) await prove();
      this.open(await socketUrl("/ws"));
    } catch (error) {
      this.failed(error);
    } finally {
      this.opening = false;
    }
  }

  private open(url: string): void {
    const socket = new WebSocket(url);
    this.socket = socket;
    socket.onopen = () => {
      this.delay = FIRST_DELAY;
      connection.value = "online";
      lostAt.value = undefined;
      lastProblem.value = "";
      for (const subscriber of this.subscribers.keys()) this.request(subscriber);
    };
    socket.onmessage = (event) => {
      const message = JSON.parse(event.data as string) as Message;
      const subscriber = this.byId.get(message.id);
      if (message.type === "ERROR" || message.type === "END") this.ended(message, subscriber);
      subscriber?.receive(message);
    };
    socket.onclose = (event) => {
      if (this.socket === socket) this.closed(event.code);
    };
  }

  private ended(message: Message, subscriber: Subscriber | undefined): void {
    this.byId.delete(message.id);
    if (subscriber) this.subscribers.set(subscriber, 0);
  }

  private closed(code: number): void {
    this.drop();
    if (code === 1008 || code === 1001 || code === 1006) session.value = undefined; // prove again
    this.later();
  }

  private drop(): void {
    const { socket } = this;
    this.socket = undefined;
    socket?.close();
    this.byId.clear();
    for (const subscriber of this.subscribers.keys()) {
      this.subscribers.set(subscriber, 0);
      subscriber.disconnected?.();
    }
  }

  private failed(error: unknown): void {
    lastProblem.value = error instanceof Error ? error.message : String(error);
    if (error instanceof SessionError && error.refusal !== "unreachable") {
      connection.value = error.refusal;
      lostAt.value ??= Date.now();
      if (error.refusal === "loggedOut") this.wait(LAST_DELAY);
      return; // only the user can help, unless another program has given the answer
    }
    session.value = undefined;
    this.later();
  }

  private later(): void {
    if (connection.value !== "connecting") connection.value = "offline";
    lostAt.value ??= Date.now();
    if (document.hidden) return; // retried when the page is visible
    const pause = this.delay * (0.75 + Math.random() / 2);
    this.delay = Math.min(this.delay * 2, LAST_DELAY);
    retryAt.value = Date.now() + pause;
    if (pause > 2000) connection.value = "offline";
    this.wait(pause);
  }

  /** Connect after a pause; a hidden page connects when it is visible. */
  private wait(pause: number): void {
    clearTimeout(this.timer);
    if (!document.hidden) this.timer = window.setTimeout(() => void this.connect(), pause);
  }

  private visibilityChanged(): void {
    clearTimeout(this.hiding);
    if (!document.hidden) {
      this.retryNow();
      return;
    }
    clearTimeout(this.timer);
    this.hiding = window.setTimeout(() => {
      if (!this.socket) return;
      this.drop();
      connection.value = "offline";
      lostAt.value ??= Date.now();
    }, HIDDEN_MS);
  }
}

export const multiplexer = new Multiplexer();
