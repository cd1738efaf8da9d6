// SPDX-License-Identifier: Apache-2.0
// Terminal output as spans of text with a style. Only SGR ("m") sequences have an effect; all
// other escape sequences are removed. The style at the end of a line is that of the next one.

export interface Style {
  readonly fg?: string; // "c0" to "c15": a class; "#rrggbb": a colour
  readonly bg?: string;
  readonly bold?: boolean;
  readonly dim?: boolean;
  readonly italic?: boolean;
  readonly underline?: boolean;
  readonly inverse?: boolean;
}

export interface Span {
  readonly text: string;
  readonly style: Style;
}

export const PLAIN: Style = {};

// CSI, OSC (to BEL or ST) and two-character sequences, and control characters but tab
const ESCAPE = /\x1b\[([0-?]*)([ -/]*[@-~])|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[PX^_][^\x1b]*(?:\x1b\\)?|\x1b.?|[\x00-\x08\x0b-\x1f\x7f]/g;

const CUBE = [0, 95, 135, 175, 215, 255];

function hex(red: number, green: number, blue: number): string {
  return `#${[red, green, blue].map((part) => Math.min(255, Math.max(0, part | 0)).toString(16).padStart(2, "0")).join("")}`;
}

/** A colour of the 256-colour palette. */
export function palette(index: number): string | undefined {
  if (!(index >= 0 && index < 256)) return undefined;
  if (index < 16) return `c${index}`;
  if (index >= 232) {
    const grey = 8 + (index - 232) * 10;
    return hex(grey, grey, grey);
  }
  const cube = index - 16;
  return hex(CUBE[Math.floor(cube / 36)] ?? 0, CUBE[Math.floor(cube / 6) % 6] ?? 0, CUBE[cube % 6] ?? 0);
}

function extended(codes: number[], at: number): [string | undefined, number] {
  if (codes[at] === 5) return [palette(codes[at + 1] ?? -1), at + 1];
  if (codes[at] === 2) return [hex(codes[at + 1] ?? 0, codes[at + 2] ?? 0, codes[at + 3] ?? 0), at + 3];
  return [undefined, at];
}

/** The style after an SGR sequence with these parameters. */
export function sgr(parameters: string, before: Style): Style {
  let style: { -readonly [key in keyof Style]: Style[key] } = { ...before };
  const codes = parameters === "" ? [0] : parameters.split(/[;:]/).map(Number);
  for (let at = 0; at < codes.length; at += 1) {
    const code = codes[at] ?? 0;
    if (code === 0) style = {};
    else if (code === 1) style.bold = true;
    else if (code === 2) style.dim = true;
    else if (code === 3) style.italic = true;
    else if (code === 4) style.underline = true;
    else if (code === 7) style.inverse = true;
    else if (code === 22) { delete style.bold; delete style.dim; }
    else if (code === 23) delete style.italic;
    else if (code === 24) delete style.underline;
    else if (code === 27) delete style.inverse;
    else if (code >= 30 && code <= 37) style.fg = `c${code - 30}`;
    else if (code >= 90 && code <= 97) style.fg = `c${code - 82}`;
    else if (code >= 40 && code <= 47) style.bg = `c${code - 40}`;
    else if (code >= 100 && code <= 107) style.bg = `c${code - 92}`;
    else if (code === 39) delete style.fg;
    else if (code === 49) delete style.bg;
    else if (code === 38 || code === 48) {
      const [colour, last] = extended(codes, at + 1);
      at = last;
      if (colour !== undefined) style[code === 38 ? "fg" : "bg"] = colour;
    }
  }
  return Object.keys(style).length === 0 ? PLAIN : style;
}

/** The spans of a line and the style at its end. */
export function spans(line: string, style: Style = PLAIN): [Span[], Style] {
  const result: Span[] = [];
  // a carriage return overwrites the line, as progress bars do
  const end = line.endsWith("\r") ? line.length - 1 : line.length;
  const start = line.lastIndexOf("\r", end - 1) + 1;
  if (start > 0) style = endStyle(line.slice(0, start), style);
  const shown = line.slice(start, end);
  let from = 0;
  for (const match of shown.matchAll(ESCAPE)) {
    if (match.index > from) result.push({ text: shown.slice(from, match.index), style });
    if (match[2] === "m") style = sgr(match[1] ?? "", style);
    from = match.index + match[0].length;
  }
  if (from < shown.length) result.push({ text: shown.slice(from), style });
  return [result, style];
}

/** The style after a text. */
export function endStyle(text: string, style: Style): Style {
  if (!text.includes("\x1b")) return style;
  for (const match of text.matchAll(ESCAPE)) if (match[2] === "m") style = sgr(match[1] ?? "", style);
  return style;
}

/** A line without escape sequences, for searching. */
export function plain(line: string): string {
  return /[\x00-\x08\x0a-\x1f\x7f]/.test(line) ? spans(line)[0].map((span) => span.text).join("") : line;
}
