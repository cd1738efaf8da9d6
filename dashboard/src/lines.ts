// SPDX-License-Identifier: Apache-2.0
// The lines of a log: a ring that keeps the newest ones, fed with pieces of a byte stream.

import { PLAIN, endStyle, plain, type Style } from "./ansi.ts";

export interface Line {
  readonly text: string;
  readonly style: Style; // at the start of the line
}

export class LineBuffer {
  readonly limit: number;
  dropped = 0; // lines that were removed at the top: line numbers stay stable
  private lines: Line[] = [];
  private head = 0; // of the oldest line in `lines`
  private rest = "";
  private style: Style = PLAIN;
  private readonly decoder = new TextDecoder();

  constructor(limit = 50_000) {
    this.limit = limit;
  }

  get length(): number {
    return this.lines.length - this.head + (this.rest ? 1 : 0);
  }

  at(index: number): Line | undefined {
    const line = this.lines[this.head + index];
    if (line || index !== this.lines.length - this.head || !this.rest) return line;
    return { text: this.rest, style: this.style };
  }

  clear(): void {
    this.lines = [];
    this.head = 0;
    this.rest = "";
    this.dropped = 0;
    this.style = PLAIN;
  }

  push(data: Uint8Array | string): void {
    const text = this.rest + (typeof data === "string" ? data : this.decoder.decode(data, { stream: true }));
    const parts = text.split("\n");
    this.rest = (parts.pop() ?? "").slice(-1_000_000);
    for (const part of parts) {
      this.lines.push({ text: part, style: this.style });
      this.style = endStyle(part, this.style);
    }
    const extra = this.lines.length - this.head - this.limit;
    if (extra > 0) {
      this.dropped += extra;
      this.head += extra;
      if (this.head > this.limit) {
        this.lines = this.lines.slice(this.head);
        this.head = 0;
      }
    }
  }

  /** The indexes of all lines that contain a text, in any case. */
  find(text: string): number[] {
    const found: number[] = [];
    const needle = text.toLowerCase();
    if (!needle) return found;
    for (let index = 0; index < this.length; index += 1) {
      const line = this.at(index);
      if (line && plain(line.text).toLowerCase().includes(needle)) found.push(index);
    }
    return found;
  }

  /** Everything as text, without escape sequences. */
  text(): string {
    const all: string[] = [];
    for (let index = 0; index < this.length; index += 1) all.push(plain(this.at(index)?.text ?? ""));
    return all.join("\n");
  }
}
