// SPDX-License-Identifier: Apache-2.0
// A terminal in a container. This module brings xterm.js and is loaded when a terminal is opened.
//
// The CSP forbids inline styles. xterm.js makes <style> elements and style attributes, and takes
// the global document for them, so this module has them written to constructed style sheets and
// to the CSSOM, which the CSP allows and which has the same effect.

import { FitAddon } from "@xterm/addon-fit";
import { Terminal as Xterm } from "@xterm/xterm";
import "@xterm/xterm/css/xterm.css";
import { signal } from "@preact/signals";
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

/** Terminals that were opened, by container: leaving the tab or the screen does not end the shell. */
const shells = new Map<string, Shell>();
const MOST_SHELLS = 8; // the shells of the terminals left longest ago end first

/** The shell of a container; the one that runs, or a new one. */
function shellOf(id: string): Shell {
  const found = shells.get(id) ?? new Shell(id);
  shells.delete(id);
  shells.set(id, found); // the newest is the last
  for (const each of [...shells.values()].slice(0, -MOST_SHELLS)) each.close();
  return found;
}

export function Terminal({ id }: { id: string }) {
  const box = useRef<HTMLDivElement>(null);
  const [round, setRound] = useState(0);
  const [shell, setShell] = useState<Shell>();
  useEffect(() => {
    if (!box.current) return;
    const opened = shellOf(id);
    opened.attach(box.current);
    setShell(opened);
    return () => opened.detach();
  }, [id, round]);
  const reconnect = () => {
    shell?.close();
    setRound(round + 1);
  };
  const outcome = shell?.outcome.value;
  return (
    <div class="terminal-view">
      <div class="terminal-box" ref={box} role="application" aria-label={t.terminal.label} />
      {outcome && (
        <p class="log-status" role="status">
          {outcome} <Button small onClick={reconnect}>{t.terminal.reconnect}</Button>
        </p>
      )}
    </div>
  );
}

function theme() {
  return { background: colour("--log-back"), foreground: colour("--log-text"), cursor: colour("--accent") };
}

/** A shell in a container with its screen and scroll-back, on screen or not. */
class Shell {
  /** How the program ended; empty while it runs. */
  readonly outcome = signal("");
  private readonly id: string;
  private readonly holder = document.createElement("div");
  private readonly fit = new FitAddon();
  private readonly observer = new ResizeObserver(() => this.holder.isConnected && this.fit.fit());
  private readonly dark = matchMedia("(prefers-color-scheme: dark)");
  private readonly recolour = () => void (this.terminal.options.theme = theme());
  private readonly terminal = new Xterm({
    fontSize: 13,
    fontFamily: "ui-monospace, SFMono-Regular, Menlo, Consolas, monospace",
    scrollback: 10_000,
    screenReaderMode: true,
    theme: theme(),
  });
  private socket: WebSocket | undefined;
  private closed = false;

  constructor(id: string) {
    this.id = id;
    this.holder.className = "terminal-holder";
    this.terminal.loadAddon(this.fit);
    this.terminal.onData((data) => this.send(0, data));
    this.terminal.onBinary((data) => this.send(0, Uint8Array.from(data, (char) => char.charCodeAt(0))));
    this.terminal.onResize(() => this.resize());
    this.dark.addEventListener("change", this.recolour);
    this.observer.observe(this.holder);
    this.run().catch((error: unknown) => this.finished(error instanceof Error ? error.message : String(error)));
  }

  attach(box: HTMLElement): void {
    box.append(this.holder);
    if (!this.terminal.element) this.terminal.open(this.holder); // measures the font, so not before
    this.fit.fit();
    this.terminal.focus();
  }

  detach(): void {
    this.holder.remove();
    if (this.outcome.value) this.close();
  }

  close(): void {
    if (this.closed) return;
    this.closed = true;
    if (shells.get(this.id) === this) shells.delete(this.id);
    this.dark.removeEventListener("change", this.recolour);
    this.observer.disconnect();
    this.socket?.close();
    this.terminal.dispose();
    this.holder.remove();
  }

  private send(channel: number, data: string | Uint8Array): void {
    if (this.socket?.readyState !== WebSocket.OPEN) return;
    const bytes = typeof data === "string" ? new TextEncoder().encode(data) : data;
    const message = new Uint8Array(bytes.length + 1);
    message[0] = channel;
    message.set(bytes, 1);
    this.socket.send(message);
  }

  private resize(): void {
    this.send(4, JSON.stringify({ Width: this.terminal.cols, Height: this.terminal.rows }));
  }

  private finished(text: string): void {
    if (this.closed) return;
    this.terminal.options.disableStdin = true;
    this.outcome.value = text;
    if (!this.holder.isConnected) this.close(); // not on screen: the next visit opens a new one
  }

  private async run(): Promise<void> {
    const command = ["/bin/sh", "-c", SHELL].map((part) => `command=${encodeURIComponent(part)}`).join("&");
    const query = `${command}&stdin=true&stdout=true&tty=true&env=${encodeURIComponent("TERM=xterm-256color")}`;
    const url = await socketUrl(`/k8s${engine(`exec/${this.id}?${query}`)}`);
    if (this.closed) return;
    const socket = new WebSocket(url, ["v5.channel.k8s.io"]);
    this.socket = socket;
    socket.binaryType = "arraybuffer";
    let reported = false;
    socket.onopen = () => this.resize();
    socket.onmessage = ({ data }: MessageEvent<ArrayBuffer>) => {
      const bytes = new Uint8Array(data);
      const body = bytes.subarray(1);
      if (bytes[0] === 1 || bytes[0] === 2) this.terminal.write(body);
      else if (bytes[0] === 3) {
        reported = true;
        this.finished(outcome(new TextDecoder().decode(body)));
      }
    };
    socket.onclose = ({ reason }) => reported || this.finished(reason || t.terminal.closed);
  }
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
