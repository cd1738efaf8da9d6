// SPDX-License-Identifier: Apache-2.0
import assert from "node:assert/strict";
import { test } from "node:test";
import * as f from "../src/format.ts";

test("sizes use the unit a person would", () => {
  const cases: [number, string][] = [[0, "0 B"], [999, "999 B"], [1000, "1 KB"], [4_240_000, "4.24 MB"], [999_999, "1 MB"], [123_456_789, "123 MB"], [-1500, "-1.5 KB"], [5e18, "5000 PB"]];
  for (const [value, text] of cases) assert.equal(f.bytes(value), text);
  assert.equal(f.bytes(undefined), "–");
  assert.equal(f.memory(512 * 2 ** 20), "512 MiB");
  assert.equal(f.memory(1023.9 * 1024), "1 MiB");
  assert.equal(f.rate(0), "0 B/s");
});

test("percentages have the digits that matter", () => {
  const cases: [number | undefined, string][] = [[0, "0 %"], [0.01, "<0.1 %"], [0.44, "0.4 %"], [9.96, "10 %"], [180.4, "180 %"], [undefined, "–"], [NaN, "–"]];
  for (const [value, text] of cases) assert.equal(f.percent(value), text);
});

test("durations have at most two units", () => {
  const cases: [number, string][] = [[-5, "0s"], [0, "0s"], [59.9, "59s"], [61, "1m 1s"], [600, "10m"], [3600, "1h"], [3 * 86400 + 4 * 3600, "3d 4h"], [400 * 86400, "1y 35d"]];
  for (const [value, text] of cases) assert.equal(f.duration(value), text);
});

test("times that the engine does not have are empty", () => {
  assert.equal(f.seconds("0001-01-01T00:00:00Z"), undefined);
  assert.equal(f.seconds("nonsense"), undefined);
  assert.equal(f.age(undefined, 10), "");
  assert.equal(f.age("1970-01-01T00:01:00Z", 90), "30s");
});

test("quantities are numbers", () => {
  const cases: [string | number | undefined, number | undefined][] = [["4Gi", 4 * 2 ** 30], ["500m", 0.5], ["2", 2], [3, 3], ["", undefined], [undefined, undefined], ["4XX", undefined], ["-1Gi", undefined]];
  for (const [text, value] of cases) assert.equal(f.quantity(text), value);
});

test("filters find every word in any order", () => {
  assert.ok(f.matches("web RUN", "web-1", "running"));
  assert.ok(!f.matches("web stopped", "web-1", "running"));
  assert.ok(f.matches("  ", undefined));
});

test("IDs are short", () => {
  assert.equal(f.shortId("sha256:0123456789abcdef"), "0123456789ab");
  assert.equal(f.shortId(undefined), "");
});

test("invisible characters become visible", () => {
  assert.equal(f.visible("a\u202eb\u0007"), "a\\u202eb\\u0007");
});
