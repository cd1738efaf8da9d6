// SPDX-License-Identifier: Apache-2.0
// Screens and heavy parts that are loaded when they are opened.
//
// Nothing is loaded while the connection is lost: another program may have the daemon's port then,
// and its script would run in a page that is logged in.

import { useEffect, useState } from "preact/hooks";
import type { ComponentType } from "preact";
import { online } from "../api/socket.ts";
import { Problem, Spinner } from "./controls.tsx";
import { t } from "../texts.ts";

/** Load a module of the page, once the daemon is there. */
export async function part<T>(load: () => Promise<T>): Promise<T> {
  await online();
  return load();
}

/** A component that loads another one when it is first shown. */
export function lazily<P extends object>(load: () => Promise<ComponentType<P>>): ComponentType<P> {
  let loaded: ComponentType<P> | undefined;
  return function Lazy(props: P) {
    const [, setDone] = useState(false);
    const [error, setError] = useState<Error | undefined>();
    const attempt = () => {
      part(load).then(
        (component) => {
          loaded = component;
          setDone(true);
        },
        (failure: unknown) => setError(failure as Error),
      );
    };
    useEffect(() => {
      if (!loaded) attempt();
    }, []);
    // a part that is not there any more belongs to another version of the daemon
    if (error) return <Problem title={t.connection.outdatedTitle} error={error} retry={() => location.reload()} />;
    if (!loaded) return <div class="empty"><Spinner /></div>;
    const Component = loaded;
    return <Component {...props} />;
  };
}
