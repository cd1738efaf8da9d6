// SPDX-License-Identifier: Apache-2.0
import assert from "node:assert/strict";
import { test } from "node:test";
import { changesOf, locksOf, merged, nested, undoOf, valueAt, type Change } from "../src/history.ts";
import { link, parse } from "../src/router.ts";
import { differences, fromText, readable, restarts, settingsOf, specSchema, toText } from "../src/schema.ts";
import { containerTone, fixOf, groupOf, health, percentage, portUrl, published, splitReference } from "../src/state.ts";
import { arrange, compare, windowOf } from "../src/ui/rows.ts";
import type { App, Container, Diagnostic } from "../src/api/types.ts";

function condition(type: string, status: string, reason: string, message = "", time = "2026-01-01T00:00:00Z") {
  return { type, status, reason, message, lastTransitionTime: time } as never;
}

function app(running: boolean, ...conditions: never[]): App {
  return { metadata: { name: "app" }, spec: { running }, status: { conditions } };
}

test("health is one line with a next step", () => {
  assert.equal(health(undefined).next, "start");
  assert.deepEqual([health(app(true, condition("Settled", "True", "Settled"))).tone, health(app(false, condition("Settled", "True", "Settled"))).next], ["good", "start"]);
  const busy = health(app(true, condition("Settled", "False", "Starting", "x"), condition("Running", "False", "Starting", "Downloading 42 %", "2026-01-01T00:00:01Z")));
  assert.deepEqual([busy.tone, busy.text, busy.percent], ["busy", "Downloading 42 %", 0.42]);
  const failed = app(true, condition("Settled", "False", "NoDriver", "nothing works"));
  failed.status = { ...failed.status, failure: { reason: "NoDriver", remedy: "apt install docker.io" } };
  assert.deepEqual([health(failed).tone, health(failed).remedy, health(failed).next], ["bad", "apt install docker.io", "retry"]);
  assert.equal(percentage("300 %"), undefined);
});

function container(status: object): Container {
  return { metadata: { name: "id" }, status: { name: "web", namespace: "moby", path: "/bin/sh", image: "sha256:1", status: "running", ...status } as Container["status"] };
}

test("containers have a tone, a group and ports", () => {
  assert.equal(containerTone(container({})), "good");
  assert.equal(containerTone(container({ health: "unhealthy" })), "bad");
  assert.equal(containerTone(container({ lastAction: { action: "stop", state: "Failed" } })), "bad");
  assert.equal(groupOf(container({ labels: { "com.docker.compose.project": "shop" } })).key, "project shop");
  assert.equal(groupOf(container({ labels: { "io.kubernetes.pod.name": "p", "io.kubernetes.pod.namespace": "n" } })).title, "Pod n/p");
  assert.equal(groupOf(container({})).key, "");
  const ports = published(container({ ports: [{ name: "80/tcp", bindings: [{ hostIP: "0.0.0.0", hostPort: "8080" }, { hostIP: "::", hostPort: "8080" }] }, { name: "53/udp", bindings: [{ hostIP: "127.0.0.1", hostPort: "53" }] }, { name: "1/tcp" }] }));
  assert.deepEqual(ports.map((port) => `${port.hostIP}:${port.hostPort}->${port.port}/${port.protocol}`), [":8080->80/tcp", "127.0.0.1:53->53/udp"]);
  assert.equal(portUrl(ports[0] as never), "http://localhost:8080");
  assert.equal(portUrl({ hostIP: "::1", hostPort: "8443", port: "443", protocol: "tcp" }), "https://[::1]:8443");
});

test("references split at the tag", () => {
  assert.deepEqual(splitReference("registry:5000/a/b:1"), ["registry:5000/a/b", "1"]);
  assert.deepEqual(splitReference("registry:5000/a"), ["registry:5000/a", ""]);
});

test("checks have fixes", () => {
  const diagnostic = (name: string, nextStep: string): Diagnostic => ({ metadata: { name }, status: { nextStep } });
  assert.equal(fixOf(diagnostic("disk", "docker system prune")), "prune");
  assert.equal(fixOf(diagnostic("engine", "rdd --instance 2 restart")), "restart");
  assert.equal(fixOf(diagnostic("engine", "less log")), undefined);
  assert.equal(fixOf(diagnostic("ports", "ss -ltn")), undefined);
});

test("rows are filtered, sorted and grouped", () => {
  const rows = [{ n: "b10", g: "x" }, { n: "b9", g: "x" }, { n: "a", g: "" }];
  const base = { rows, keyOf: (row: { n: string }) => row.n, nameOf: (row: { n: string }) => row.n, filter: "", textOf: (row: { n: string }) => [row.n], valueOf: (row: { n: string }) => row.n, descending: false, collapsed: new Set<string>() };
  assert.deepEqual(arrange(base).map((entry) => entry.key), ["a", "b9", "b10"]);
  assert.deepEqual(arrange({ ...base, filter: "B", descending: true }).map((entry) => entry.key), ["b10", "b9"]);
  const groupOf = (row: { g: string }) => ({ key: row.g, title: row.g, order: row.g ? 0 : 1 });
  assert.deepEqual(arrange({ ...base, groupOf }).map((entry) => entry.key), ["group x", "b9", "b10", "a"]);
  assert.deepEqual(arrange({ ...base, groupOf, collapsed: new Set(["x"]) }).map((entry) => entry.key), ["group x", "a"]);
  assert.ok(compare(undefined, 1) > 0 && compare(2, 10) < 0 && compare("a2", "a10") < 0);
});

test("only visible rows are rendered", () => {
  assert.deepEqual(windowOf(1000, 36, 0, 720), [0, 28]);
  assert.deepEqual(windowOf(1000, 36, 36 * 500, 720), [492, 528]);
  assert.deepEqual(windowOf(3, 36, 99999, 720), [0, 3]);
  assert.deepEqual(windowOf(0, 36, 0, 720), [0, 0]);
});

test("routes survive any name", () => {
  const name = 'a/b "<x>"%';
  assert.deepEqual(parse(link("containers", name, "logs")), { screen: "containers", parts: [name, "logs"] });
  assert.deepEqual(parse("#/%E0%A4%A"), { screen: "%E0%A4%A", parts: [] });
  assert.equal(parse("").screen, "home");
});

const schema = {
  properties: {
    running: { type: "boolean" },
    namespace: { type: "string", default: "default", "x-kubernetes-validations": [{ rule: "self == oldSelf" }] },
    containerEngine: { type: "object", default: { name: "moby" }, properties: { name: { type: "string", enum: ["moby", "containerd"] } } },
    virtualMachine: { type: "object", properties: { cpus: { type: "integer" } } },
    proxy: { type: "object", properties: { noProxy: { type: "array", items: { type: "string" } } } },
    registries: { type: "object", properties: { mirrors: { type: "array", items: { type: "object" } } } },
  },
};

test("settings come from the schema", () => {
  const settings = settingsOf(schema);
  assert.deepEqual(settings.map(({ path, kind }) => `${path} ${kind}`), ["running boolean", "namespace string", "containerEngine.name enum", "virtualMachine.cpus integer", "proxy.noProxy lines", "registries.mirrors json"]);
  assert.equal(settings[2]?.default, "moby");
  assert.equal(settings[1]?.immutable, true);
  const document = { components: { schemas: { x: { "x-kubernetes-group-version-kind": [{ kind: "App" }], properties: { spec: schema } } } } };
  assert.equal(specSchema(document, "App"), schema);
  assert.deepEqual(differences(settings, { virtualMachine: { cpus: 1 } }, { virtualMachine: { cpus: 2 } }, valueAt), ["virtualMachine.cpus"]);
  assert.ok(restarts(["application.updates.enabled", "virtualMachine.cpus"]));
  assert.ok(!restarts(["application.updates.enabled"]));
});

test("texts of settings become values", () => {
  assert.equal(fromText("4", "integer"), 4);
  assert.throws(() => fromText("4.5", "integer"));
  assert.equal(fromText(" ", "string"), null);
  assert.deepEqual(fromText("a\n\n b ", "lines"), ["a", "b"]);
  assert.equal((fromText("-----BEGIN A\nx\n-----END A\n-----BEGIN B\ny\n-----END B", "lines") as string[]).length, 2);
  assert.deepEqual(fromText('[{"a":1}]', "json"), [{ a: 1 }]);
  assert.throws(() => fromText("{", "json"));
  assert.equal(toText(["a", "b"], "lines"), "a\nb");
  assert.equal(toText(undefined, "json"), "");
  assert.equal(readable('admission webhook "x.y" denied the request: spec.a: too big'), "spec.a: too big");
});

test("changes are undone unless something else changed since", () => {
  const change: Change = { id: "1", time: "", user: "u", manager: "m", operation: "update", fields: [{ field: "virtualMachine.cpus", old: 2, new: 4 }, { field: "virtualMachine.memory", old: "2Gi", new: "4Gi", wasDefault: true }] };
  const spec = { virtualMachine: { cpus: 4, memory: "4Gi" } };
  assert.deepEqual(undoOf(change, spec), { virtualMachine: { cpus: 2, memory: null } });
  assert.equal(undoOf(change, { virtualMachine: { cpus: 3, memory: "4Gi" } }), "changed");
  assert.equal(undoOf({ ...change, fields: [{ field: "proxy.httpProxy", old: "", new: "***", masked: ["old"] }] }, spec), "masked");
  assert.equal(undoOf({ ...change, operation: "create" }, spec), "masked");
  assert.deepEqual(changesOf({ metadata: { name: "h" }, data: { changes: "not json" } }), []);
  assert.deepEqual(changesOf({ metadata: { name: "h" }, data: { changes: JSON.stringify([{ id: "1" }, { id: "2" }]) } }).map((each) => each.id), ["2", "1"]);
  assert.deepEqual(merged(nested("a.b", 1), nested("a.c", 2)), { a: { b: 1, c: 2 } });
});

test("a paused App is healthy and names what wakes it", () => {
  const found = health(app(true, condition("Settled", "True", "Settled"), condition("Paused", "True", "Idle", "paused since 20:30: no activity")));
  assert.deepEqual([found.tone, found.title, found.next], ["idle", "Paused", "stop"]);
  assert.match(found.text, /^Paused since 20:30: no activity\. The first request/);
  assert.equal(health(app(true, condition("Settled", "True", "Settled"), condition("Paused", "False", "Awake"))).tone, "good");
});

test("locks are read from the copy of the profile", () => {
  const config = (locks: string) => ({ metadata: { name: "profile" }, data: { locks } });
  assert.deepEqual(locksOf(config('{"kubernetes.enabled":{"value":false,"source":"/etc/x.yaml:6"}}'))["kubernetes.enabled"], { value: false, source: "/etc/x.yaml:6" });
  assert.deepEqual([locksOf(undefined), locksOf(config("{")), locksOf({ metadata: { name: "profile" } })], [{}, {}, {}]);
});
