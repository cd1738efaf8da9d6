// SPDX-License-Identifier: Apache-2.0
// Small parts that all screens use.

import { useState } from "preact/hooks";
import type { ComponentChildren } from "preact";
import { Icon, type IconName } from "./icons.tsx";
import { t } from "../texts.ts";
import { report } from "./toasts.tsx";
import { useNow } from "./hooks.ts";
import { age, dateTime } from "../format.ts";

export type Tone = "good" | "bad" | "warn" | "busy" | "idle";

interface ButtonProps {
  children?: ComponentChildren;
  icon?: IconName;
  title?: string;
  kind?: "primary" | "danger" | "plain" | "ghost";
  disabled?: boolean;
  type?: "button" | "submit";
  onClick?: () => unknown;
  small?: boolean;
  pressed?: boolean;
  id?: string;
}

/** A button; while its action is a pending promise it is busy, and an error becomes a toast. */
export function Button({ children, icon, title, kind = "plain", disabled, type = "button", onClick, small, pressed, id }: ButtonProps) {
  const [busy, setBusy] = useState(false);
  const click = async (event: Event) => {
    event.stopPropagation();
    const result = onClick?.();
    if (!(result instanceof Promise)) return;
    setBusy(true);
    try {
      await result;
    } catch (error) {
      report(error);
    } finally {
      setBusy(false);
    }
  };
  const name = `button ${kind}${small ? " small" : ""}${children ? "" : " only-icon"}${busy ? " busy" : ""}`;
  return (
    <button id={id} type={type} class={name} title={title} aria-label={children ? undefined : title} aria-pressed={pressed} disabled={disabled || busy} onClick={onClick ? click : undefined}>
      {icon && <Icon name={icon} />}
      {children}
    </button>
  );
}

export function Badge({ tone, children, title }: { tone: Tone; children: ComponentChildren; title?: string | undefined }) {
  return (
    <span class={`badge ${tone}`} title={title}>
      <i aria-hidden="true" />
      {children}
    </span>
  );
}

export function Spinner({ label = t.loading }: { label?: string }) {
  return (
    <span class="spinner" role="status">
      <i aria-hidden="true" />
      {label}
    </span>
  );
}

/** What a screen shows instead of content. */
export function Empty({ icon, title, children }: { icon?: IconName; title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      {icon && <Icon name={icon} />}
      <h2>{title}</h2>
      {children}
    </div>
  );
}

export function Problem({ title, error, retry }: { title?: string; error: Error | { message?: string }; retry?: (() => void) | undefined }) {
  return (
    <div class="problem" role="alert">
      <Icon name="warning" />
      <div>
        <strong>{title ?? t.failed}</strong>
        <p>{error.message || t.unknownError}</p>
      </div>
      {retry && <Button onClick={retry}>{t.retry}</Button>}
    </div>
  );
}

export async function copy(text: string): Promise<void> {
  await navigator.clipboard.writeText(text);
}

/** A text that a click copies. */
export function Copy({ text, label }: { text: string; label?: string }) {
  const [done, setDone] = useState(false);
  const click = async () => {
    await copy(text);
    setDone(true);
    setTimeout(() => setDone(false), 1500);
  };
  return <Button kind="ghost" small icon={done ? "check" : "copy"} title={done ? t.copied : (label ?? t.copy)} onClick={click} />;
}

export function Command({ text }: { text: string }) {
  return (
    <div class="command">
      <code>{text}</code>
      <Copy text={text} label={t.copyCommand(text)} />
    </div>
  );
}

export function Facts({ children }: { children: ComponentChildren }) {
  return <dl class="facts">{children}</dl>;
}

export function Fact({ name, children, copyable }: { name: string; children?: ComponentChildren; copyable?: string | undefined }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>
        <span>{children}</span>
        {copyable && <Copy text={copyable} label={t.copyOf(name)} />}
      </dd>
    </div>
  );
}

export function Card({ title, children, action, wide }: { title: string; children: ComponentChildren; action?: ComponentChildren; wide?: boolean }) {
  return (
    <section class={`card${wide ? " wide" : ""}`} aria-label={title}>
      <header>
        <h2>{title}</h2>
        {action}
      </header>
      {children}
    </section>
  );
}

/** A table of a few rows, without scrolling of its own. */
export function SmallTable({ label, head, rows }: { label: string; head: string[]; rows: ComponentChildren[][] }) {
  if (rows.length === 0) return <p class="none">{t.none}</p>;
  return (
    <div class="scroll-x" tabIndex={0} role="region" aria-label={label}>
      <table class="small-table" aria-label={label}>
        <thead>
          <tr>{head.map((each) => <th key={each} scope="col">{each}</th>)}</tr>
        </thead>
        <tbody>
          {rows.map((cells, row) => <tr key={row}>{cells.map((cell, index) => <td key={index}>{cell}</td>)}</tr>)}
        </tbody>
      </table>
    </div>
  );
}

export function Tabs({ label, tabs, current, href }: { label: string; tabs: readonly { id: string; title: string }[]; current: string; href: (id: string) => string }) {
  return (
    <nav class="tabs" aria-label={label}>
      {tabs.map(({ id, title }) => <a key={id} href={href(id)} aria-current={id === current ? "page" : undefined}>{title}</a>)}
    </nav>
  );
}

export function Meter({ label, value, max, text }: { label: string; value: number | undefined; max: number | undefined; text: string }) {
  const share = value !== undefined && max ? Math.min(1, Math.max(0, value / max)) : 0;
  return (
    <div class="meter">
      <span>{label}</span>
      <b>{text}</b>
      <div class={`bar${share > 0.9 ? " high" : ""}`} role="img" aria-label={`${label}: ${text}`}>
        <i style={{ width: `${share * 100}%` }} />
      </div>
    </div>
  );
}

export function Progress({ value, label }: { value: number | undefined; label: string }) {
  return (
    <div class={`progress${value === undefined ? " unknown" : ""}`} role="progressbar" aria-label={label} aria-valuenow={value === undefined ? undefined : Math.round(value * 100)} aria-valuemin={0} aria-valuemax={100}>
      <i style={value === undefined ? {} : { width: `${value * 100}%` }} />
    </div>
  );
}

/** The time since an event, kept up to date. */
export function Age({ time }: { time: string | undefined }) {
  const now = useNow();
  return <time dateTime={time} title={time ? dateTime(time) : undefined}>{age(time, now)}</time>;
}

export function Field({ label, hint, children }: { label: string; hint?: string; children: ComponentChildren }) {
  return (
    <label class="field">
      <span>{label}</span>
      {children}
      {hint && <small>{hint}</small>}
    </label>
  );
}
