// SPDX-License-Identifier: Apache-2.0
// The form that creates a container.

import { resources } from "../api/kube.ts";
import { fulfil } from "../api/requests.ts";
import { stores } from "../api/stores.ts";
import { t } from "../texts.ts";
import { openForm } from "../ui/forms.tsx";
import { notify } from "../ui/toasts.tsx";

export function lines(text: string | undefined): string[] {
  return (text ?? "").split("\n").map((line) => line.trim()).filter(Boolean);
}

export interface PortSpec {
  name: string;
  bindings?: { hostIP: string; hostPort: string }[];
}

/** Ports as docker writes them: [[IP:]HOST:]CONTAINER[/PROTOCOL]. */
export function parsePorts(texts: readonly string[]): PortSpec[] {
  const ports = new Map<string, PortSpec>();
  for (const text of texts) {
    const match = /^(?:(?:(\[[0-9a-fA-F:]+\]|[0-9.]+):)?(\d*):)?(\d+)(?:\/(tcp|udp|sctp))?$/.exec(text);
    if (!match || Number(match[3]) > 65535 || Number(match[2] || 0) > 65535) throw new Error(t.containers.badPort(text));
    const name = `${match[3]}/${match[4] ?? "tcp"}`;
    const port = ports.get(name) ?? { name };
    const published = match[2] !== undefined;
    if (published) port.bindings = [...(port.bindings ?? []), { hostIP: (match[1] ?? "").replace(/[[\]]/g, ""), hostPort: match[2] ?? "" }];
    ports.set(name, port);
  }
  return [...ports.values()];
}

export function parseMap(texts: readonly string[]): Record<string, string> {
  const result: Record<string, string> = {};
  for (const text of texts) {
    const at = text.indexOf("=");
    if (at < 1) throw new Error(t.containers.badLabel(text));
    result[text.slice(0, at)] = text.slice(at + 1);
  }
  return result;
}

export function openCreate(image = ""): void {
  const { fields } = t.containers;
  openForm({
    title: t.containers.create,
    action: t.create,
    fields: [
      { name: "image", label: fields.image, required: true, placeholder: "nginx:latest", initial: image },
      { name: "name", label: fields.name },
      { name: "ports", label: fields.ports, hint: fields.portsHint, kind: "lines" },
      { name: "command", label: fields.command, hint: fields.commandHint, kind: "lines" },
      { name: "labels", label: fields.labels, hint: fields.labelsHint, kind: "lines" },
      { name: "start", label: fields.start, kind: "checkbox", initial: "true" },
    ],
    submit: async (values) => {
      const [path, ...args] = lines(values["command"]);
      const ports = parsePorts(lines(values["ports"]));
      const labels = parseMap(lines(values["labels"]));
      await fulfil(resources.containerCreates, stores.containerCreates, {
        image: values["image"],
        state: values["start"] ? "running" : "created",
        ...(values["name"] ? { name: values["name"] } : {}),
        ...(path ? { path, args } : {}),
        ...(ports.length > 0 ? { ports } : {}),
        ...(Object.keys(labels).length > 0 ? { labels } : {}),
      });
      notify(t.containers.created);
    },
  });
}
