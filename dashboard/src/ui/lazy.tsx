// SPDX-License-Identifier: Apache-2.0
// Screens and heavy parts that are loaded when they are opened.

import { useEffect, useState } from "preact/hooks";
import type { ComponentType } from "preact";
import { Problem, Spinner } from "./controls.tsx";
import { t } from "../texts.ts";

/** A component that loads another one when it is first shown. */
export function lazily<P extends object>(load: () => Promise<ComponentType<P>>): ComponentType<P> {
  let loaded: ComponentType<P> | undefined;
  return function Lazy(props: P) {
    const [, setDone] = useState(false);
    const [error, setError] = useState<Error | undefined>();
    const attempt = () => {
      load().then(
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
