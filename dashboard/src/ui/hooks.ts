// SPDX-License-Identifier: Apache-2.0
// Hooks that connect components with stores for as long as they are on screen.

import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import type { Collection } from "../api/collection.ts";
import type { KubeObject } from "../api/objects.ts";
import { now, useTicks } from "../clock.ts";
import { machineFigures } from "../api/figures.ts";

/** Follow a list; the component renders again when it changes. */
export function useList<T extends KubeObject>(collection: Collection<T>): readonly T[] {
  useEffect(() => collection.use(), [collection]);
  return collection.items.value;
}

/** The current time in seconds; ticks once a second. */
export function useNow(): number {
  useEffect(useTicks, []);
  return now.value;
}

export function useMachineFigures() {
  useEffect(() => machineFigures.show(), []);
  return machineFigures.latest.value;
}

export interface Loaded<T> {
  value: T | undefined;
  error: Error | undefined;
  loading: boolean;
  reload: () => void;
}

/** Load something when the component appears and when a key changes. */
export function useLoad<T>(load: () => Promise<T>, ...keys: unknown[]): Loaded<T> {
  const [state, setState] = useState<{ value?: T; error?: Error; loading: boolean }>({ loading: true });
  const [round, setRound] = useState(0);
  const latest = useRef(0);
  useEffect(() => {
    const mine = ++latest.current;
    setState((before) => (round === 0 ? { loading: true } : { ...before, loading: true }));
    load().then(
      (value) => mine === latest.current && setState({ value, loading: false }),
      (error: unknown) => mine === latest.current && setState({ error: error instanceof Error ? error : new Error(String(error)), loading: false }),
    );
    return () => {
      latest.current += 1;
    };
    // eslint-disable-next-line
  }, [...keys, round]);
  const reload = useCallback(() => setRound((count) => count + 1), []);
  return { value: state.value, error: state.error, loading: state.loading, reload };
}
