// SPDX-License-Identifier: Apache-2.0
// Settings, generated from the schema of the App. The API checks every change at once by a dry
// run; nothing is written before "Apply".

import { useEffect, useRef, useState } from "preact/hooks";
import { get, mergePatch, resources, groupPath } from "../api/kube.ts";
import { app, stores } from "../api/stores.ts";
import { isTrue } from "../api/objects.ts";
import { ApiError, session } from "../api/session.ts";
import type { App } from "../api/types.ts";
import { age, matches, memory, quantity } from "../format.ts";
import { changesOf, locksOf, merged, nested, show, valueAt, type Change, type Lock } from "../history.ts";
import { differences, fromText, readable, restarts, settingsOf, specSchema, toText, type Schema, type Setting } from "../schema.ts";
import { t } from "../texts.ts";
import { Button, Card, Empty, Problem, Spinner } from "../ui/controls.tsx";
import { useList, useLoad } from "../ui/hooks.ts";
import { Icon } from "../ui/icons.tsx";
import { notify } from "../ui/toasts.tsx";

interface Checked {
  state: "none" | "checking" | "accepted" | "rejected";
  message: string;
  causes: Record<string, string>; // by path
  restarts: boolean;
}

// what is changed most comes first; a section that a later version adds comes last
const ORDER = ["virtualMachine", "containerEngine", "kubernetes", "registries", "proxy", "certificates", "application", t.settings.general];

const UNCHECKED: Checked = { state: "none", message: "", causes: {}, restarts: false };

export function Settings() {
  useList(stores.apps);
  const schema = useLoad(() => get<{ components?: { schemas?: Record<string, Schema> } }>(`/openapi/v3${groupPath(resources.apps)}`));
  if (schema.error) return <Problem error={schema.error} retry={schema.reload} />;
  const spec = schema.value && specSchema(schema.value, "App");
  if (!spec || stores.apps.state.value === "loading") return <div class="empty"><Spinner /></div>;
  if (!app.value) return <Empty icon="gear" title={t.settings.noApp} />;
  return <Form current={app.value} settings={settingsOf(spec).filter(({ path }) => path !== "running")} />;
}

function Form({ current, settings }: { current: App; settings: readonly Setting[] }) {
  const changes = changesOf(useList(stores.history)[0]);
  const profile = useList(stores.profile)[0];
  const locks = locksOf(profile);
  const broken = profile?.data?.["problems"];
  const [texts, setTexts] = useState<Readonly<Record<string, string>>>({});
  const [checked, setChecked] = useState<Checked>(UNCHECKED);
  const [filter, setFilter] = useState("");
  const round = useRef(0);
  const writes = session.value?.role !== "viewer";
  const stored = (setting: Setting) => toText(valueAt(current.spec, setting.path), setting.kind);
  const changed = settings.filter((setting) => texts[setting.path] !== undefined && texts[setting.path] !== stored(setting));
  const key = JSON.stringify(changed.map(({ path }) => [path, texts[path]]));

  const patch = () => merged(...changed.map(({ path, kind }) => nested(path, fromText(texts[path] ?? "", kind))));
  const check = async () => {
    const mine = ++round.current;
    const done = (result: Checked) => mine === round.current && setChecked(result);
    if (changed.length === 0) return done(UNCHECKED);
    const invalid: Record<string, string> = {};
    for (const { path, kind } of changed) {
      try {
        fromText(texts[path] ?? "", kind);
      } catch (error) {
        invalid[path] = (error as Error).message;
      }
    }
    if (Object.keys(invalid).length > 0) return done({ state: "rejected", message: t.settings.rejected, causes: invalid, restarts: false });
    done({ ...UNCHECKED, state: "checking" });
    try {
      const result = await mergePatch<App>(resources.apps, current, { spec: patch() }, true);
      const paths = differences(settings, current.spec, result.spec, valueAt);
      done({ state: "accepted", message: t.settings.accepted, causes: {}, restarts: restarts(paths) && isTrue(current, "Running") });
    } catch (error) {
      done(rejection(error, settings));
    }
  };
  useEffect(() => {
    const timer = setTimeout(() => void check(), 200);
    return () => clearTimeout(timer);
  }, [key, current.metadata.resourceVersion]);

  const apply = async () => {
    try {
      await mergePatch<App>(resources.apps, current, { spec: patch() });
      setTexts({});
      notify(t.settings.saved);
    } catch (error) {
      setChecked(rejection(error, settings));
    }
  };
  const rank = (section: string) => (ORDER.indexOf(section) + ORDER.length + 1) % (ORDER.length + 1);
  const found = settings.filter(({ path, description }) => matches(filter, path, titleOf(path), description));
  const sections = [...new Set(found.map(({ section }) => section))].sort((a, b) => rank(a) - rank(b));
  return (
    <>
      <div class="toolbar">
        <label class="filter">
          <Icon name="search" />
          <input type="search" data-filter="true" placeholder={t.filter} aria-label={t.settings.search} value={filter} onInput={(event) => setFilter(event.currentTarget.value)} onKeyDown={(event) => event.key === "Escape" && (setFilter(""), event.currentTarget.blur())} />
        </label>
        <span class="count" aria-live="polite">{filter && t.filtered(found.length, settings.length)}</span>
      </div>
      <div class="settings">
        {broken && <Problem title={t.settings.brokenProfile} error={{ message: broken }} />}
        {found.length === 0 && <p class="none">{t.nothingMatches}</p>}
        {sections.map((section) => (
          <Card key={section} title={titleOf(section)}>
            <div>
              {found.filter((setting) => setting.section === section).map((setting) => (
                <Row key={setting.path} setting={setting} text={texts[setting.path] ?? stored(setting)} changed={changed.includes(setting)} cause={checked.causes[setting.path]} last={lastChange(changes, setting.path)} lock={locks[setting.path]} disabled={!writes || setting.immutable || locks[setting.path] !== undefined} onValue={(text) => setTexts({ ...texts, [setting.path]: text })} />
              ))}
            </div>
          </Card>
        ))}
      </div>
      {changed.length > 0 && (
        <div class="apply-bar" role="region" aria-label={t.settings.pending(changed.length)}>
          <p class={checked.state === "rejected" ? "bad" : ""} role="status">
            <b>{t.settings.pending(changed.length)}.</b> {checked.state === "checking" ? t.settings.checking : checked.message} {checked.state === "accepted" && (checked.restarts ? t.settings.restarts : t.settings.restartsNothing)}
          </p>
          <Button onClick={() => setTexts({})}>{t.settings.discard}</Button>
          <Button kind="primary" disabled={checked.state !== "accepted"} onClick={apply}>{t.settings.apply}</Button>
        </div>
      )}
    </>
  );
}

/** The causes of a rejection by the path of their setting, the rest as one message. */
export function rejection(error: unknown, settings: readonly Setting[]): Checked {
  const causes: Record<string, string> = {};
  const message = readable(error instanceof Error ? error.message : String(error));
  if (error instanceof ApiError) {
    for (const cause of error.status.details?.causes ?? []) {
      const path = settings.find((setting) => cause.field === `spec.${setting.path}` || cause.field?.startsWith(`spec.${setting.path}[`))?.path;
      if (path) causes[path] = cause.message ?? message;
    }
  }
  if (Object.keys(causes).length === 0) {
    for (const { path } of settings) if (new RegExp(`\\bspec\\.${path.replaceAll(".", "\\.")}(?![\\w.])`).test(message)) causes[path] = message;
  }
  return { state: "rejected", message: Object.keys(causes).length > 0 ? t.settings.rejected : message, causes, restarts: false };
}

function lastChange(changes: readonly Change[], path: string): Change | undefined {
  return changes.find((change) => change.fields.some((field) => field.field === path || field.field.startsWith(`${path}.`)));
}

function titleOf(section: string): string {
  const words = section.replace(/([a-z])([A-Z])/g, "$1 $2").toLowerCase();
  return words.charAt(0).toUpperCase() + words.slice(1);
}

interface RowProps {
  setting: Setting;
  text: string;
  changed: boolean;
  cause: string | undefined;
  last: Change | undefined;
  lock: Lock | undefined;
  disabled: boolean;
  onValue: (text: string) => void;
}

function Row({ setting, text, changed, cause, last, lock, disabled, onValue }: RowProps) {
  const id = `setting-${setting.path}`;
  const fallback = setting.default === undefined ? "" : t.settings.default(show(setting.default));
  return (
    <div class="setting" data-setting={setting.path}>
      <div>
        <label class={`setting-name${changed ? " changed" : ""}`} for={id}>
          {setting.path}
          {(setting.immutable || lock) && <span title={lock ? t.settings.lockedBy(lock.source) : t.settings.immutable}><Icon name="lock" /></span>}
        </label>
        <p id={`${id}-text`}>{setting.description}</p>
        <small>{[fallback, limitOf(setting), setting.kind === "lines" && !setting.path.endsWith("authorities") ? t.settings.onePerLine : setting.kind === "json" ? t.settings.json : "", setting.immutable ? t.settings.immutable : ""].filter(Boolean).join(" ")}</small>
        {lock && <small class="locked">{t.settings.lockedBy(lock.source)} </small>}
        {last && <small> {t.settings.setBy(`${last.user} (${last.manager})`, `${age(last.time, Date.now() / 1000)} ago`)}</small>}
      </div>
      <Input id={id} setting={setting} text={text} disabled={disabled} invalid={cause !== undefined} onValue={onValue} />
      {cause && <p class="refused" role="alert">{cause}</p>}
    </div>
  );
}

/** What the host has, for the settings that it limits. */
function limitOf({ path }: Setting): string {
  const host = useList(stores.hostInfos)[0]?.status;
  if (path === "virtualMachine.cpus" && host?.cpus) return t.settings.upTo(t.home.cpus(host.cpus));
  if (path === "virtualMachine.memory" && host?.memory) return t.settings.upTo(memory(quantity(host.memory)));
  return "";
}

function Versions({ id }: { id: string }) {
  const config = useList(stores.k3sVersions)[0];
  const parse = (member: string): Record<string, string> => {
    try {
      return JSON.parse(config?.data?.[member] ?? "{}") as Record<string, string>;
    } catch {
      return {};
    }
  };
  const channels = Object.entries(parse("channels"));
  const versions = Object.keys(parse("versions")).sort((a, b) => b.localeCompare(a, undefined, { numeric: true }));
  return (
    <datalist id={id}>
      {channels.map(([name, version]) => <option key={name} value={name} label={`${name} (${version})`} />)}
      {versions.map((version) => <option key={version} value={version} />)}
    </datalist>
  );
}

function Input({ id, setting, text, disabled, invalid, onValue }: { id: string; setting: Setting; text: string; disabled: boolean; invalid: boolean; onValue: (text: string) => void }) {
  const common = { id, disabled, "aria-describedby": `${id}-text`, "aria-invalid": invalid };
  if (setting.kind === "boolean") return <span class="check"><input type="checkbox" {...common} checked={text === "true"} onChange={(event) => onValue(String(event.currentTarget.checked))} />{text === "true" ? t.settings.on : t.settings.off}</span>;
  if (setting.kind === "enum") {
    return (
      <select {...common} value={text} onChange={(event) => onValue(event.currentTarget.value)}>
        {!setting.options.includes("") && text === "" && <option value="">{t.settings.unset}</option>}
        {setting.options.map((option) => <option key={option} value={option}>{option}</option>)}
      </select>
    );
  }
  if (setting.kind === "lines" || setting.kind === "json") return <textarea {...common} rows={Math.min(8, Math.max(2, text.split("\n").length))} value={text} spellcheck={false} onInput={(event) => onValue(event.currentTarget.value)} />;
  const isVersion = setting.path === "kubernetes.version";
  return (
    <>
      <input type="text" {...common} inputMode={setting.kind === "integer" ? "numeric" : "text"} value={text} list={isVersion ? "k3s-versions" : undefined} placeholder={t.settings.unset} autocomplete="off" spellcheck={false} onInput={(event) => onValue(event.currentTarget.value)} />
      {isVersion && <Versions id="k3s-versions" />}
    </>
  );
}
