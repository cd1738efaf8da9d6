// SPDX-License-Identifier: Apache-2.0
// A log that follows: 50,000 lines, of which only the visible ones exist in the DOM. Text can be
// selected and searched, colours are those of the terminal, a broken stream is resumed.

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { spans, type Span } from "../ansi.ts";
import { text } from "../api/kube.ts";
import { socketUrl } from "../api/session.ts";
import { LineBuffer } from "../lines.ts";
import { t } from "../texts.ts";
import { Button, Spinner, copy } from "../ui/controls.tsx";
import { Icon } from "../ui/icons.tsx";
import { windowOf } from "../ui/rows.ts";

const ROW = 18;

interface LogProps {
  path: string; // of the API, without a query
  active: boolean; // whether more is expected: the stream is resumed if it breaks
  round?: string; // a change starts the log again
  timestamps?: boolean; // the endpoint supports them
  tail?: string; // empty: the endpoint has no such parameter
  plainHttp?: boolean; // the endpoint has no WebSocket
}

export function LogView({ path, active, round = "", timestamps = false, tail = "50000", plainHttp = false }: LogProps) {
  const [stamped, setStamped] = useState(false);
  const [following, setFollowing] = useState(true);
  const [, setVersion] = useState(0);
  const [view, setView] = useState({ top: 0, height: 400 });
  const [status, setStatus] = useState("");
  const [loading, setLoading] = useState(true);
  const [needle, setNeedle] = useState("");
  const [hit, setHit] = useState(0);
  const buffer = useRef(new LineBuffer());
  const box = useRef<HTMLDivElement>(null);
  const touched = useRef(0); // when the user last did something in the log
  const touch = () => void (touched.current = Date.now());

  useEffect(() => {
    const lines = buffer.current;
    lines.clear();
    setLoading(true);
    const query = `follow=true${tail ? `&tail=${tail}` : ""}${timestamps ? `&timestamps=${stamped}` : ""}`;
    return stream(`${path}?${query}`, active, plainHttp ? overHttp : overSocket, {
      data: (data) => lines.push(data),
      restart: () => lines.clear(),
      changed: () => {
        setLoading(false);
        setVersion((version) => version + 1);
      },
      status: (text) => {
        setLoading(false);
        setStatus(text);
      },
    });
  }, [path, active, stamped, round]);

  const lines = buffer.current;
  const count = lines.length;
  useEffect(() => {
    const element = box.current;
    if (element && following) element.scrollTop = element.scrollHeight;
  });
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const measure = () => setView({ top: element.scrollTop, height: element.clientHeight });
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  const scrolled = () => {
    const element = box.current;
    if (!element) return;
    setView({ top: element.scrollTop, height: element.clientHeight });
    // new lines, and a log that starts again, scroll as well: only the user ends the following
    const atEnd = element.scrollTop + element.clientHeight >= element.scrollHeight - ROW;
    if (atEnd) setFollowing(true);
    else if (Date.now() - touched.current < 1000) setFollowing(false);
  };
  const found = useMemo(() => lines.find(needle), [needle, count, lines.dropped]);
  const show = (index: number) => {
    const line = found[index];
    const element = box.current;
    setHit(index);
    if (line === undefined || !element) return;
    setFollowing(false);
    element.scrollTop = Math.max(0, line * ROW - element.clientHeight / 2);
  };
  // before the next event: a click on "previous" right after typing counts from the first match
  useLayoutEffect(() => {
    if (needle && found.length > 0) show(0);
  }, [needle]);
  const step = (by: number) => found.length > 0 && show((hit + by + found.length) % found.length);
  const [first, last] = windowOf(count, ROW, view.top, view.height, 20);
  const current = found[Math.min(hit, found.length - 1)];
  const shown = [];
  for (let index = first; index < last; index += 1) {
    const line = lines.at(index);
    if (line) shown.push(<LogLine key={lines.dropped + index} parts={spans(line.text, line.style)[0]} needle={needle} current={index === current} />);
  }
  return (
    <div class="log-view">
      <div class="toolbar">
        <label class="filter">
          <Icon name="search" />
          <input type="search" data-filter="true" placeholder={t.log.search} aria-label={t.log.search} value={needle} onInput={(event) => {
            setNeedle(event.currentTarget.value);
            setHit(0);
          }} onKeyDown={(event) => {
            if (event.key === "Enter") step(event.shiftKey ? -1 : 1);
            else if (event.key === "Escape") setNeedle("");
          }} />
        </label>
        {needle && <span class="count" aria-live="polite">{t.log.found(Math.min(hit, found.length - 1) + 1, found.length)}</span>}
        {needle && <Button small kind="ghost" icon="up" title={t.log.previous} disabled={found.length === 0} onClick={() => void step(-1)} />}
        {needle && <Button small kind="ghost" icon="down" title={t.log.next} disabled={found.length === 0} onClick={() => void step(1)} />}
        <span class="gap" />
        <span class="count">{t.log.lines(count)}{lines.dropped > 0 && ` · ${t.log.dropped(lines.dropped)}`}</span>
        {timestamps && <label class="check"><input type="checkbox" checked={stamped} onChange={(event) => setStamped(event.currentTarget.checked)} />{t.log.timestamps}</label>}
        <label class="check"><input type="checkbox" checked={following} onChange={(event) => setFollowing(event.currentTarget.checked)} />{t.log.follow}</label>
        <Button small kind="ghost" icon="copy" title={t.log.copy} onClick={() => copy(lines.text())} />
        <Button small kind="ghost" icon="trash" title={t.log.clear} onClick={() => {
          lines.clear();
          setVersion((version) => version + 1);
        }} />
      </div>
      <div class="log" ref={box} tabIndex={0} role="log" aria-live="off" aria-label={t.log.label} onScroll={scrolled} onWheel={touch} onKeyDown={touch} onPointerDown={touch} onTouchMove={touch}>
        {loading && <Spinner />}
        {!loading && count === 0 && <p class="none">{t.log.empty}</p>}
        <div class="log-space" style={{ height: `${count * ROW}px` }}>
          <div class="log-lines" style={{ transform: `translateY(${first * ROW}px)` }}>{shown}</div>
        </div>
      </div>
      {status && <p class="log-status" role="status">{status}</p>}
    </div>
  );
}

function LogLine({ parts, needle, current }: { parts: readonly Span[]; needle: string; current: boolean }) {
  return <div class={`line${current ? " hit" : ""}`}>{parts.length === 0 ? "\u00a0" : parts.map((part, index) => <LogSpan key={index} part={part} needle={needle} />)}</div>;
}

function LogSpan({ part: { text, style }, needle }: { part: Span; needle: string }) {
  const { fg, bg } = style.inverse ? { fg: style.bg ?? "back", bg: style.fg ?? "front" } : style;
  const classes = [fg && !fg.startsWith("#") && `f-${fg}`, bg && !bg.startsWith("#") && `b-${bg}`, style.bold && "bold", style.dim && "dim", style.italic && "italic", style.underline && "underline"].filter(Boolean).join(" ");
  const colours = { ...(fg?.startsWith("#") ? { color: fg } : {}), ...(bg?.startsWith("#") ? { backgroundColor: bg } : {}) };
  const content = needle ? marked(text, needle) : text;
  return classes || Object.keys(colours).length > 0 ? <span class={classes} style={colours}>{content}</span> : <>{content}</>;
}

/** A text with the matches of a search marked. */
function marked(text: string, needle: string) {
  const low = text.toLowerCase();
  const find = needle.toLowerCase();
  const parts = [];
  let from = 0;
  for (let at = low.indexOf(find); at >= 0; at = low.indexOf(find, from)) {
    parts.push(text.slice(from, at), <mark key={at}>{text.slice(at, at + find.length)}</mark>);
    from = at + find.length;
  }
  parts.push(text.slice(from));
  return parts;
}

interface Listener {
  data(data: Uint8Array): void;
  restart(): void;
  changed(): void;
  status(text: string): void;
}

/** The end of a stream: whether it was complete, and why not. */
type Ended = (complete: boolean, reason: string) => void;

/** Open a stream; the returned function closes it. */
type Transport = (path: string, opened: () => void, data: (data: Uint8Array) => void, ended: Ended) => () => void;

const overSocket: Transport = (path, opened, data, ended) => {
  let socket: WebSocket | undefined;
  let closed = false;
  socketUrl(`/k8s${path}`).then(
    (url) => {
      if (closed) return;
      socket = new WebSocket(url);
      socket.binaryType = "arraybuffer";
      socket.onopen = opened;
      socket.onmessage = ({ data: piece }: MessageEvent<ArrayBuffer | string>) => data(typeof piece === "string" ? new TextEncoder().encode(piece) : new Uint8Array(piece));
      socket.onclose = ({ code, reason }) => ended(code === 1000, reason);
    },
    (error: unknown) => ended(false, String(error)),
  );
  return () => {
    closed = true;
    socket?.close();
  };
};

const overHttp: Transport = (path, opened, data, ended) => {
  const abort = new AbortController();
  const read = async () => {
    const reply = await text(path, abort.signal);
    opened();
    const reader = reply.body?.getReader();
    for (let part = await reader?.read(); part && !part.done; part = await reader?.read()) data(part.value);
  };
  read().then(
    () => ended(true, ""),
    (error: unknown) => ended(false, error instanceof Error ? error.message : String(error)),
  );
  return () => abort.abort();
};

/** Follow a log until the returned function is called; a broken stream is opened again. */
function stream(path: string, active: boolean, transport: Transport, listener: Listener): () => void {
  let over = false;
  let delay = 1;
  let close: (() => void) | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let frame: ReturnType<typeof setTimeout> | undefined;
  const changed = () => {
    frame ??= setTimeout(() => {
      frame = undefined;
      listener.changed();
    }, 30); // a burst is one rendering
  };
  const open = () => {
    let begun = false;
    const opened = () => {
      listener.status("");
      listener.restart();
      setTimeout(changed, 150); // an empty log
    };
    const data = (piece: Uint8Array) => {
      begun = true;
      delay = 1;
      listener.data(piece);
      changed();
    };
    close = transport(path, opened, data, (complete, reason) => {
      if (over) return;
      changed();
      if (complete) return listener.status(t.log.ended);
      if (!active && !begun) return listener.status(reason || t.log.ended);
      listener.status(t.log.lost(delay));
      timer = setTimeout(open, delay * 1000);
      delay = Math.min(16, delay * 2);
    });
  };
  open();
  return () => {
    over = true;
    clearTimeout(timer);
    clearTimeout(frame);
    close?.();
  };
}
