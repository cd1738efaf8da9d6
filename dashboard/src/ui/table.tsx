// SPDX-License-Identifier: Apache-2.0
// The table of all lists: sorted, filtered, grouped, with selection, actions and keyboard. Only
// the visible rows exist in the DOM, so a thousand cost as much as thirty.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { ComponentChildren } from "preact";
import { Button, Empty, Problem, Spinner } from "./controls.tsx";
import { Icon, type IconName } from "./icons.tsx";
import { activeTable } from "./keyboard.ts";
import { openMenu } from "./menu.tsx";
import { arrange, windowOf, type Entry, type Group, type Value } from "./rows.ts";
import type { ListState } from "../api/collection.ts";
import { t } from "../texts.ts";

export interface Column<T> {
  id: string;
  title: string;
  width: string; // a track of CSS grid
  cell: (row: T) => ComponentChildren;
  value?: (row: T) => Value; // sortable
  from?: number; // hidden in a narrower table
  end?: boolean; // aligned right
}

export interface Action<T> {
  id: string;
  title: string;
  icon: IconName;
  run: (rows: readonly T[]) => unknown;
  allowed?: (row: T) => boolean;
  danger?: boolean;
  inline?: boolean; // a button in the row
  single?: boolean; // not for a selection
}

interface TableProps<T> {
  label: string;
  rows: readonly T[];
  keyOf: (row: T) => string;
  nameOf: (row: T) => string;
  columns: readonly Column<T>[];
  textOf: (row: T) => readonly (string | undefined)[];
  actions?: readonly Action<T>[];
  groupOf?: (row: T) => Group;
  href?: (row: T) => string;
  state: ListState;
  problem?: { message?: string } | undefined;
  empty: ComponentChildren;
  extra?: ComponentChildren; // in the tool bar
  onVisible?: (rows: readonly T[]) => void;
  sortBy?: string;
  descending?: boolean;
}

const ROW = 36;
const remembered = new Map<string, { sort: string; descending: boolean; filter: string; collapsed: ReadonlySet<string> }>();

export function Table<T>(props: TableProps<T>) {
  const { label, rows, keyOf, columns, actions = [], state, groupOf, textOf } = props;
  const before = remembered.get(label);
  const [filter, setFilter] = useState(before?.filter ?? "");
  const [sort, setSort] = useState(before?.sort ?? props.sortBy ?? columns[0]?.id ?? "");
  const [descending, setDescending] = useState(before?.descending ?? props.descending ?? false);
  const [collapsed, setCollapsed] = useState<ReadonlySet<string>>(before?.collapsed ?? new Set());
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const [cursor, setCursor] = useState<string | undefined>();
  const [view, setView] = useState({ top: 0, height: 600, width: window.innerWidth });
  const body = useRef<HTMLDivElement>(null);
  remembered.set(label, { sort, descending, filter, collapsed });

  const entries = useMemo(() => {
    const valueOf = columns.find((column) => column.id === sort)?.value ?? (() => undefined);
    return arrange({ rows, keyOf, nameOf: props.nameOf, filter, textOf, valueOf, descending, groupOf, collapsed });
  }, [rows, filter, sort, descending, collapsed, columns]);
  const [first, last] = windowOf(entries.length, ROW, view.top, view.height);
  const shown = entries.slice(first, last);

  useEffect(() => {
    const element = body.current;
    if (!element) return;
    const measure = () => setView({ top: element.scrollTop, height: element.clientHeight, width: element.clientWidth });
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    element.addEventListener("scroll", measure, { passive: true });
    return () => {
      observer.disconnect();
      element.removeEventListener("scroll", measure);
    };
  }, [rows.length === 0]);

  const visible = shown.flatMap((entry) => (entry.group ? [] : [entry.row as T]));
  const visibleKeys = visible.map(keyOf).join("\n");
  useEffect(() => props.onVisible?.(visible), [visibleKeys, rows]);
  useEffect(() => () => props.onVisible?.([]), []);

  const chosen = rows.filter((row) => selected.has(keyOf(row)));
  const bulk = actions.filter((action) => !action.single);
  const toggle = (key: string, range: boolean) => {
    const next = new Set(selected);
    const keys = entries.flatMap((entry) => (entry.group ? [] : [entry.key]));
    const [from, to] = [keys.indexOf(cursor ?? key), keys.indexOf(key)];
    if (range && from >= 0) for (const each of keys.slice(Math.min(from, to), Math.max(from, to) + 1)) next.add(each);
    else if (!next.delete(key)) next.add(key);
    setSelected(next);
    setCursor(key);
  };
  const run = async (action: Action<T>, targets: readonly T[]) => {
    const allowed = targets.filter((row) => action.allowed?.(row) ?? true);
    if (allowed.length > 0) await action.run(allowed);
    if (targets === chosen) setSelected(new Set());
  };
  const move = (step: number, extend = false) => {
    const all = entries.filter((entry) => !entry.group);
    if (all.length === 0) return;
    const at = all.findIndex((entry) => entry.key === cursor);
    const target = all[Math.max(0, Math.min(all.length - 1, at < 0 ? 0 : at + step))] as Entry<T>;
    setCursor(target.key);
    if (extend) setSelected(new Set([...selected, ...(cursor ? [cursor] : []), target.key]));
    const top = entries.indexOf(target) * ROW;
    const element = body.current;
    if (!element) return;
    if (top < element.scrollTop) element.scrollTop = top;
    else if (top + ROW > element.scrollTop + element.clientHeight) element.scrollTop = top + ROW - element.clientHeight;
  };
  activeTable.current = {
    move,
    open: () => {
      const row = rows.find((each) => keyOf(each) === cursor);
      if (row && props.href) location.hash = props.href(row);
    },
    select: () => cursor && actions.length > 0 && toggle(cursor, false),
    clear: () => {
      setSelected(new Set());
      setCursor(undefined);
    },
  };
  useEffect(() => () => void (activeTable.current = undefined), []);

  const showing = columns.filter((column) => !column.from || view.width >= column.from);
  const inline = view.width >= 560 ? actions.filter((action) => action.inline) : [];
  const selectable = bulk.length > 0;
  const tracks = [selectable ? "34px" : "10px", ...showing.map((column) => column.width), actions.length > 0 ? `${inline.length * 30 + 44}px` : "10px"].join(" ");
  const rowCount = entries.filter((entry) => !entry.group).length;
  const allSelected = chosen.length > 0 && chosen.length === rows.length;

  return (
    <div class="table-screen">
      <div class="toolbar">
        <label class="filter">
          <Icon name="search" />
          <input type="search" data-filter="true" placeholder={t.filter} aria-label={t.filterOf(label)} value={filter} onInput={(event) => setFilter(event.currentTarget.value)} onKeyDown={(event) => event.key === "Escape" && (setFilter(""), event.currentTarget.blur())} />
        </label>
        <span class="count" aria-live="polite">{filter ? t.filtered(rowCount, rows.length) : t.rows(rows.length)}</span>
        {chosen.length > 0 ? (
          <div class="bulk" role="toolbar" aria-label={t.bulkActions}>
            <b>{t.selected(chosen.length)}</b>
            {bulk.map((action) => (
              <Button key={action.id} small kind={action.danger ? "danger" : "plain"} icon={action.icon} disabled={!chosen.some((row) => action.allowed?.(row) ?? true)} onClick={() => run(action, chosen)}>{action.title}</Button>
            ))}
            <Button small kind="ghost" icon="cross" title={t.clearSelection} onClick={() => setSelected(new Set())} />
          </div>
        ) : <div class="extra">{props.extra}</div>}
      </div>
      {state === "stale" && rows.length > 0 && <p class="stale-note" role="status">{t.stale}</p>}
      {state === "error" && <Problem title={t.listFailed(label)} error={props.problem ?? {}} />}
      {rows.length === 0 && state === "loading" && <div class="empty"><Spinner /></div>}
      {rows.length === 0 && state === "absent" && <Empty title={t.absent} />}
      {rows.length === 0 && (state === "live" || state === "stale") && props.empty}
      {rows.length > 0 && (
        <div class={`table${state === "stale" ? " stale" : ""}`} role="table" aria-label={label} aria-rowcount={rowCount + 1}>
          <div role="rowgroup">
            <div class="row head" role="row" aria-rowindex={1} style={{ gridTemplateColumns: tracks }}>
              <div role="columnheader" class="select">
                {selectable && <input type="checkbox" aria-label={t.selectAll} checked={allSelected} onChange={() => setSelected(allSelected ? new Set() : new Set(entries.flatMap((entry) => (entry.group ? [] : [entry.key]))))} />}
                {!selectable && <span class="hidden">{t.selection}</span>}
              </div>
              {showing.map((column) => (
                <Heading key={column.id} column={column} sorted={column.id === sort ? (descending ? "descending" : "ascending") : undefined} onSort={() => {
                  setDescending(column.id === sort ? !descending : false);
                  setSort(column.id);
                }} />
              ))}
              <div role="columnheader"><span class="hidden">{t.actions}</span></div>
            </div>
          </div>
          <div class="rows" role="rowgroup" ref={body} tabIndex={0} aria-label={label}>
            <div role="presentation" style={{ height: `${entries.length * ROW}px` }}>
              <div role="presentation" style={{ transform: `translateY(${first * ROW}px)` }}>
                {shown.map((entry, index) => entry.group ? (
                  <GroupRow key={entry.key} group={entry.group} count={entry.count} index={first + index} closed={collapsed.has(entry.group.key)} onToggle={() => {
                    const next = new Set(collapsed);
                    if (!next.delete(entry.group.key)) next.add(entry.group.key);
                    setCollapsed(next);
                  }} />
                ) : (
                  <Row key={entry.key} id={entry.key} row={entry.row as T} index={first + index + 2} columns={showing} tracks={tracks} actions={actions} inline={inline} selected={selected.has(entry.key)} current={entry.key === cursor} selectable={selectable} onSelect={toggle} name={props.nameOf(entry.row as T)} run={run} />
                ))}
              </div>
            </div>
            {rowCount === 0 && <p class="none">{t.nothingMatches}</p>}
          </div>
        </div>
      )}
    </div>
  );
}

function Heading<T>({ column, sorted, onSort }: { column: Column<T>; sorted: "ascending" | "descending" | undefined; onSort: () => void }) {
  const name = column.end ? "end" : "";
  if (!column.value) return <div role="columnheader" class={name}>{column.title}</div>;
  return (
    <div role="columnheader" aria-sort={sorted ?? "none"} class={name}>
      <button type="button" onClick={onSort}>{column.title}<i aria-hidden="true">{sorted === "ascending" ? "↑" : sorted ? "↓" : ""}</i></button>
    </div>
  );
}

function GroupRow({ group, count, index, closed, onToggle }: { group: Group; count: number; index: number; closed: boolean; onToggle: () => void }) {
  return (
    <div class="row group" role="row" aria-rowindex={index + 2}>
      <div role="cell">
        <button type="button" aria-expanded={!closed} onClick={onToggle}>
          <Icon name={closed ? "right" : "down"} />
          <bdi>{group.title}</bdi> <span>{count}</span>
        </button>
      </div>
    </div>
  );
}

interface RowProps<T> {
  id: string;
  row: T;
  name: string;
  index: number;
  columns: readonly Column<T>[];
  tracks: string;
  actions: readonly Action<T>[];
  inline: readonly Action<T>[];
  selected: boolean;
  current: boolean;
  selectable: boolean;
  onSelect: (key: string, range: boolean) => void;
  run: (action: Action<T>, rows: readonly T[]) => Promise<void>;
}

function Row<T>({ id, row, name, index, columns, tracks, actions, inline, selected, current, selectable, onSelect, run }: RowProps<T>) {
  const usable = actions.filter((action) => action.allowed?.(row) ?? true);
  const items = usable.map((action) => ({ title: action.title, icon: action.icon, danger: action.danger ?? false, run: () => run(action, [row]) }));
  const menu = (at: MouseEvent | HTMLElement) => items.length > 0 && openMenu(at, items);
  return (
    <div class={`row${selected ? " selected" : ""}${current ? " current" : ""}`} role="row" aria-rowindex={index} data-key={id} style={{ gridTemplateColumns: tracks }} onContextMenu={(event) => {
      if (items.length === 0 || event.shiftKey) return;
      event.preventDefault();
      menu(event);
    }}>
      <div role="cell" class="select">
        {selectable && <input type="checkbox" aria-label={t.select(name)} checked={selected} onClick={(event) => onSelect(id, event.shiftKey)} />}
      </div>
      {columns.map((column) => <div key={column.id} role="cell" class={column.end ? "end" : ""}>{column.cell(row)}</div>)}
      <div role="cell" class="row-actions">
        {inline.map((action) => usable.includes(action) ? (
          <Button key={action.id} small kind="ghost" icon={action.icon} title={t.actionOn(action.title, name)} onClick={() => run(action, [row])} />
        ) : <span key={action.id} class="no-action" />)}
        {items.length > 0 && (
          <button type="button" class="button ghost small only-icon" aria-haspopup="menu" aria-label={t.actionsOf(name)} title={t.actions} onClick={(event) => menu(event.currentTarget)}>
            <Icon name="more" />
          </button>
        )}
      </div>
    </div>
  );
}
