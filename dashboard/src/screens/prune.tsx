// SPDX-License-Identifier: Apache-2.0
// Free disk space: remove what no container uses.

import { engine, post } from "../api/kube.ts";
import { bytes } from "../format.ts";
import { t } from "../texts.ts";
import { openForm } from "../ui/forms.tsx";
import { notify } from "../ui/toasts.tsx";

export function openPrune(): void {
  const options = Object.entries(t.prune.options);
  openForm({
    title: t.prune.title,
    text: t.prune.text,
    action: t.prune.action,
    fields: options.map(([name, label]) => ({ name, label, kind: "checkbox" as const, initial: name === "images" || name === "build-cache" ? "true" : "" })),
    submit: async (values) => {
      let freed = 0;
      for (const [name] of options) {
        if (!values[name]) continue;
        const [what, all] = name === "all-images" ? ["images", "true"] : [name, "false"];
        freed += (await post<{ reclaimed?: number }>(engine(`prune?what=${what}&all=${all}`))).reclaimed ?? 0;
      }
      notify(t.prune.done(bytes(freed)));
    },
  });
}
