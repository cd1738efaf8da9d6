// SPDX-License-Identifier: Apache-2.0
// Live figures of containers and of the machine: one subscription each for the whole page, only
// for what is on screen, and none while the page is hidden.

import { signal } from "@preact/signals";
import { multiplexer, type Message, type Subscriber } from "./socket.ts";

export interface Figures {
  cpu: number;
  memory: number;
  memoryLimit: number;
  networkRx: number;
  networkTx: number;
  blockRead: number;
  blockWrite: number;
  pids: number;
}

export interface HostFigures {
  machine: { cpus: number; cpu: number; memory: number; memoryUsed: number; disk: number; diskUsed: number };
  daemon: { cpu: number; memory: number };
}

export interface Sample extends Figures {
  time: number;
}

export const POINTS = 120;

abstract class Live implements Subscriber {
  private unsubscribe: (() => void) | undefined;

  constructor() {
    document.addEventListener("visibilitychange", () => this.update());
  }

  abstract request(): Record<string, unknown> | undefined;
  abstract receive(message: Message): void;
  protected abstract wanted(): boolean;

  /** What is wanted may have changed. */
  protected changed(): void {}

  protected update(): void {
    const wanted = this.wanted() && !document.hidden;
    if (wanted && this.unsubscribe) this.changed();
    else if (wanted) this.unsubscribe = multiplexer.subscribe(this);
    else {
      this.unsubscribe?.();
      this.unsubscribe = undefined;
    }
  }
}

class ContainerFigures extends Live {
  readonly latest = signal<Readonly<Record<string, Figures>>>({});
  readonly history = new Map<string, Sample[]>();
  private readonly users = new Map<symbol, readonly string[]>();
  private requested: readonly string[] = [];
  private queued = false;

  /** The names that a component shows; called again when they change, with none at its end. */
  show(user: symbol, names: readonly string[]): void {
    if (names.length > 0) this.users.set(user, names);
    else if (!this.users.delete(user)) return;
    if (this.queued) return;
    this.queued = true; // scrolling changes them often
    setTimeout(() => {
      this.queued = false;
      this.update();
    }, 150);
  }

  private names(): string[] {
    return [...new Set([...this.users.values()].flat())].slice(0, 100);
  }

  protected wanted(): boolean {
    return this.users.size > 0;
  }

  protected override changed(): void {
    if (this.names().join() !== this.requested.join()) multiplexer.replace(this);
  }

  request(): Record<string, unknown> {
    this.requested = this.names();
    return { op: "stats", names: this.requested };
  }

  receive(message: Message): void {
    if (message.type !== "STATS") return;
    const items = message["items"] as Record<string, Figures>;
    const time = message["time"] as number;
    for (const [name, figures] of Object.entries(items)) {
      const samples = this.history.get(name) ?? [];
      if (samples.at(-1)?.time === time) continue;
      samples.push({ time, ...figures });
      if (samples.length > POINTS) samples.shift();
      this.history.set(name, samples);
    }
    // a message has the containers with new figures; those that are not wanted any more go
    for (const name of this.history.keys()) if (!this.requested.includes(name)) this.history.delete(name);
    const all = { ...this.latest.value, ...items };
    this.latest.value = Object.fromEntries(Object.entries(all).filter(([name]) => this.requested.includes(name)));
  }
}

class MachineFigures extends Live {
  readonly latest = signal<HostFigures | undefined>(undefined);
  readonly history: (HostFigures & { time: number })[] = [];
  private users = 0;

  show(): () => void {
    this.users += 1;
    this.update();
    return () => {
      this.users -= 1;
      this.update();
    };
  }

  protected wanted(): boolean {
    return this.users > 0;
  }

  request(): Record<string, unknown> {
    return { op: "host" };
  }

  receive(message: Message): void {
    if (message.type !== "HOST") return;
    const figures = message as unknown as HostFigures & { time: number };
    this.history.push(figures);
    if (this.history.length > POINTS) this.history.shift();
    this.latest.value = figures;
  }
}

export const containerFigures = new ContainerFigures();
export const machineFigures = new MachineFigures();

/** The change per second of a total between the last two samples. */
export function perSecond(samples: readonly Sample[], member: keyof Figures): number[] {
  return samples.slice(1).map((sample, index) => {
    const before = samples[index] as Sample;
    const time = sample.time - before.time;
    return time > 0 ? Math.max(0, sample[member] - before[member]) / time : 0;
  });
}
