// SPDX-License-Identifier: Apache-2.0
// Browse and download the files of a container or a volume.

import { useState } from "preact/hooks";
import { download, get } from "../api/kube.ts";
import { bytes, dateTime } from "../format.ts";
import { t } from "../texts.ts";
import { Button, Problem, Spinner } from "../ui/controls.tsx";
import { useLoad } from "../ui/hooks.ts";
import { Icon } from "../ui/icons.tsx";

interface Listing {
  path: string;
  entries: { name: string; type: "file" | "directory" | "symlink" | "other"; size: number; mode: string; modified: string; target?: string }[];
  truncated: boolean;
}

export function join(folder: string, name: string): string {
  return folder.endsWith("/") ? folder + name : `${folder}/${name}`;
}

/** The folders above a path, from the root: [["/", "/"], ["etc", "/etc"]]. */
export function crumbs(path: string): [string, string][] {
  const parts = path.split("/").filter(Boolean);
  return [["/", "/"], ...parts.map((part, index): [string, string] => [part, `/${parts.slice(0, index + 1).join("/")}`])];
}

export function Files({ list, archive }: { list: (path: string) => string; archive: (path: string) => string }) {
  const [path, setPath] = useState("/");
  const { value, error, loading, reload } = useLoad(() => get<Listing>(list(path)), path);
  const entries = [...(value?.entries ?? [])].sort((a, b) => Number(b.type === "directory") - Number(a.type === "directory") || a.name.localeCompare(b.name));
  return (
    <div class="files">
      <div class="toolbar">
        <nav class="crumbs" aria-label={t.files.path}>
          {crumbs(path).map(([name, target]) => <button key={target} type="button" aria-current={target === path ? "location" : undefined} onClick={() => setPath(target)}><bdi>{name}</bdi></button>)}
        </nav>
        <Button small kind="ghost" icon="restart" title={t.refresh} onClick={reload} />
        <Button small icon="download" onClick={() => download(archive(path))}>{t.files.downloadFolder}</Button>
      </div>
      {error && <Problem error={error} retry={reload} />}
      {loading && !value && <div class="empty"><Spinner /></div>}
      {value && (
        <div class="scroll" tabIndex={0} role="region" aria-label={path}>
          <table class="small-table">
            <thead>
              <tr><th scope="col">{t.files.name}</th><th scope="col" class="end">{t.files.size}</th><th scope="col">{t.files.modified}</th><th scope="col">{t.files.mode}</th><th scope="col"><span class="hidden">{t.actions}</span></th></tr>
            </thead>
            <tbody>
              {entries.map((entry) => (
                <tr key={entry.name}>
                  <td>
                    <span class="file-name">
                      <Icon name={entry.type === "directory" ? "folder" : entry.type === "symlink" ? "link" : "file"} />
                      {entry.type === "directory" ? <button type="button" onClick={() => setPath(join(path, entry.name))}><bdi>{entry.name}</bdi></button> : <bdi>{entry.name}</bdi>}
                      {entry.target && <span class="muted"> → <bdi>{entry.target}</bdi></span>}
                    </span>
                  </td>
                  <td class="end">{entry.type === "directory" ? "" : bytes(entry.size)}</td>
                  <td>{dateTime(entry.modified)}</td>
                  <td><code class="mode">{entry.mode}</code></td>
                  <td>{(entry.type === "file" || entry.type === "directory") && <Button small kind="ghost" icon="download" title={t.files.downloadOf(entry.name)} onClick={() => download(archive(join(path, entry.name)))} />}</td>
                </tr>
              ))}
            </tbody>
          </table>
          {entries.length === 0 && <p class="none">{t.files.empty}</p>}
          {value.truncated && <p class="none">{t.files.truncated}</p>}
        </div>
      )}
    </div>
  );
}
