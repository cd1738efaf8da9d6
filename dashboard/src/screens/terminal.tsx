// SPDX-License-Identifier: Apache-2.0
// A terminal in a container. This module brings xterm.js and is loaded when a terminal is opened.
//
// The CSP forbids inline styles. xterm.js makes <style> elements and style attributes, and takes
// the global document for them, so this module has them written to constructed style sheets and
// to the CSSOM, which the CSP allows and which has the same effect.

import { FitAddon } from "@xterm/addon-fit";
import { Terminal as Xterm } from "@xterm/xterm";
import "@xterm/xterm/css/xterm.css";
import { useEffect, useRef, useState } from "preact/hooks";
import { engine } from "../api/kube.ts";
import { socketUrl } from "../api/session.ts";
import { t } from "../texts.ts";
import { Button } from "../ui/controls.tsx";

const SHELL = "if command -v bash >/dev/null 2>&1; then exec bash; else exec sh; fi";

/** An element that routes its text into a constructed style sheet, instead of a <style>. */
function sheetElement(): HTMLElement {
  const element = createElement("template");
  const sheet = new CSSStyleSheet();
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
  Object.defineProperty(element, "textContent", { set: (text: string) => sheet.replaceSync(text), get: () => "" });
  const removed = element.remove.bind(element);
  element.remove = () => {
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((each) => each !== sheet);
    removed();
  };
  return element;
}

const createElement = document.createElement.bind(document);
Object.defineProperty(document, "createElement", {
  configurable: true,
  value: (name: string, options?: ElementCreationOptions) => (name === "style" ? sheetElement() : createElement(name, options)),
});

const setAttribute = Element.prototype.setAttribute;
HTMLElement.prototype.setAttribute = function (this: HTMLElement, name: string, value: string): void {
  if (name === "style") this.style.cssText = value;
  else setAttribute.call(this, name, value);
};

function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

export function Terminal({ id }: { id: string }) {
  const box = useRef<HTMLDivElement>(null);
  const [state, setState] = useState("");
  const [round, setRound] = useState(0);
  useEffect(() => {
    if (!box.current) return;
    setState("");
    return connect(box.current, id, setState);
  }, [id, round]);
  return (
    <div class="terminal-view">
      <div class="terminal" ref={box} role="application" aria-label={t.terminal.label} />
      {state && (
        <p class="log-status" role="status">
          {state} <Button small onClick={() => setRound(round + 1)}>{t.terminal.reconnect}</Button>
        </p>
      )}
    </div>
  );
}

function connect(box: HTMLElement, id: string, ended: (text: string) => void): () => void {
  const terminal = new Xterm({
    fontSize: 13,
    fontFamily: "ui-monospace, SFMono-Regular, Menlo, Consolas, monospace",
    scrollback: 10_000,
    screenReaderMode: true,
    theme: { background: colour("--log-back"), foreground: colour("--log-text"), cursor: colour("--accent") },
  });
  const fit = new FitAddon();
  terminal.loadAddon(fit);
  terminal.open(box);
  fit.fit();
  terminal.focus();
  let socket: WebSocket | undefined;
  let closed = false;
  const send = (channel: number, data: string | Uint8Array) => {
    if (socket?.readyState !== WebSocket.OPEN) return;
    const bytes = typeof data === "string" ? new TextEncoder().encode(data) : data;
    const message = new Uint8Array(bytes.length + 1);
    message[0] = channel;
    message.set(bytes, 1);
    socket.send(message);
  };
  const resize = () => send(4, JSON.stringify({ Width: terminal.cols, Height: terminal.rows }));
  terminal.onData((data) => send(0, data));
  terminal.onBinary((data) => send(0, Uint8Array.from(data, (char) => char.charCodeAt(0))));
  terminal.onResize(resize);
  const observer = new ResizeObserver(() => fit.fit());
  observer.observe(box);
  const finished = (text: string) => {
    if (closed) return;
    terminal.options.disableStdin = true;
    ended(text);
  };
  const run = async () => {
    const command = ["/bin/sh", "-c", SHELL].map((part) => `command=${encodeURIComponent(part)}`).join("&");
    const query = `${command}&stdin=true&stdout=true&tty=true&env=${encodeURIComponent("TERM=xterm-256color")}`;
    const url = await socketUrl(`/k8s${engine(`exec/${id}?${query}`)}`);
    if (closed) return;
    socket = new WebSocket(url, ["v5.channel.k8s.io"]);
    socket.binaryType = "arraybuffer";
    let reported = false;
    socket.onopen = resize;
    socket.onmessage = ({ data }: MessageEvent<ArrayBuffer>) => {
      const bytes = new Uint8Array(data);
      const body = bytes.subarray(1);
      if (bytes[0] === 1 || bytes[0] === 2) terminal.write(body);
      else if (bytes[0] === 3) {
        reported = true;
        finished(outcome(new TextDecoder().decode(body)));
      }
    };
    socket.onclose = ({ reason }) => reported || finished(reason || t.terminal.closed);
  };
  run().catch((error: unknown) => finished(error instanceof Error ? error.message : String(error)));
  return () => {
    closed = true;
    observer.disconnect();
    socket?.close();
    terminal.dispose();
  };
}

/** The text for the Status at the end of a program. */
export function outcome(text: string): string {
  try {
    const status = JSON.parse(text) as { status?: string; message?: string; details?: { causes?: { reason?: string; message?: string }[] } };
    const code = status.details?.causes?.find((cause) => cause.reason === "ExitCode")?.message;
    if (status.status === "Success") return t.terminal.ended(0);
    return code !== undefined ? t.terminal.ended(Number(code)) : t.terminal.failed(status.message ?? "");
  } catch {
    return t.terminal.closed;
  }
}
