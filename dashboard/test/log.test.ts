// SPDX-License-Identifier: Apache-2.0
import assert from "node:assert/strict";
import { test } from "node:test";
import { PLAIN, palette, plain, sgr, spans } from "../src/ansi.ts";
import { LineBuffer } from "../src/lines.ts";

test("colours and styles", () => {
  const [parts, end] = spans("a\x1b[1;31mb\x1b[0mc");
  assert.deepEqual(parts, [{ text: "a", style: PLAIN }, { text: "b", style: { bold: true, fg: "c1" } }, { text: "c", style: PLAIN }]);
  assert.equal(end, PLAIN);
  assert.deepEqual(sgr("38;5;196", PLAIN), { fg: "#ff0000" });
  assert.deepEqual(sgr("48;2;1;2;300", PLAIN), { bg: "#0102ff" });
  assert.deepEqual(sgr("38;5", PLAIN), PLAIN);
  assert.deepEqual(sgr("97;100;4;7", PLAIN), { fg: "c15", bg: "c8", underline: true, inverse: true });
  assert.deepEqual(sgr("22;39", { bold: true, fg: "c2" }), PLAIN);
  assert.equal(palette(8), "c8");
  assert.equal(palette(255), "#eeeeee");
  assert.equal(palette(256), undefined);
});

test("other escape sequences and control characters are removed", () => {
  assert.equal(plain("\x1b[2J\x1b]0;title\x07x\x1b[?25ly\x08\x07z\x1b(B"), "xyzB");
  assert.equal(plain("a\tb"), "a\tb");
  assert.equal(plain("<b>&amp;</b>"), "<b>&amp;</b>");
});

test("a carriage return overwrites the line", () => {
  assert.equal(plain("10 %\r20 %\r30 %\r"), "30 %");
  assert.equal(plain("text\r"), "text");
});

test("lines are split over pieces and characters over bytes", () => {
  const buffer = new LineBuffer();
  const bytes = new TextEncoder().encode("grün\nblau");
  for (const byte of bytes) buffer.push(new Uint8Array([byte]));
  assert.equal(buffer.length, 2);
  assert.equal(buffer.at(0)?.text, "grün");
  assert.equal(buffer.at(1)?.text, "blau");
  assert.equal(buffer.at(2), undefined);
});

test("only the newest lines are kept, and styles span lines", () => {
  const buffer = new LineBuffer(3);
  buffer.push("\x1b[32m1\n2\n3\n4\n5\n");
  assert.equal(buffer.length, 3);
  assert.equal(buffer.dropped, 2);
  assert.equal(buffer.at(0)?.text, "3");
  assert.deepEqual(buffer.at(0)?.style, { fg: "c2" });
  for (let round = 0; round < 10; round += 1) buffer.push(`${round}\n`);
  assert.deepEqual([buffer.at(0)?.text, buffer.at(2)?.text, buffer.dropped], ["7", "9", 12]);
});

test("search ignores case and colours", () => {
  const buffer = new LineBuffer();
  buffer.push("An \x1b[31mErr\x1b[0mor\nfine\nERROR");
  assert.deepEqual(buffer.find("error"), [0, 2]);
  assert.deepEqual(buffer.find(""), []);
  assert.equal(buffer.text(), "An Error\nfine\nERROR");
});

test("fifty thousand lines are cheap", () => {
  const buffer = new LineBuffer(50_000);
  for (let line = 0; line < 60_000; line += 1) buffer.push(`line ${line}\n`);
  assert.equal(buffer.length, 50_000);
  assert.equal(buffer.at(0)?.text, "line 10000");
});
