// SPDX-License-Identifier: Apache-2.0
import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { Collection } from "../src/api/collection.ts";
import type { KubeObject } from "../src/api/objects.ts";
import type { Message, Subscriber } from "../src/api/socket.ts";

mock.timers.enable({ apis: ["setTimeout"] });

class Connector {
  subscribers: Subscriber[] = [];
  renewed = 0;
  subscribe(subscriber: Subscriber): () => void {
    this.subscribers.push(subscriber);
    return () => (this.subscribers = this.subscribers.filter((each) => each !== subscriber));
  }
  renew(): void {
    this.renewed += 1;
  }
}

function object(name: string, version = "1"): KubeObject {
  return { metadata: { name, namespace: "default", resourceVersion: version } };
}

function made(): [Collection<KubeObject>, Connector] {
  const connector = new Connector();
  return [new Collection("/apis/x", connector, "labelSelector=a"), connector];
}

const sync = (items: KubeObject[], more = false): Message => ({ id: 1, type: "SYNC", items, more, ...(more ? {} : { resourceVersion: "7" }) });
const events = (...list: [string, KubeObject][]): Message => ({ id: 1, type: "EVENTS", events: list.map(([type, each]) => ({ type, object: each })), resourceVersion: "9" });
const names = (list: Collection<KubeObject>) => list.items.value.map((each) => each.metadata.name);

test("a list arrives in parts and then follows", () => {
  const [list] = made();
  assert.equal(list.state.value, "loading");
  list.receive(sync([object("a")], true));
  assert.deepEqual(names(list), []);
  list.receive(sync([object("b")]));
  assert.deepEqual(names(list), ["a", "b"]);
  assert.equal(list.state.value, "live");
  list.receive(events(["ADDED", object("c")], ["DELETED", object("a")], ["MODIFIED", object("b", "8")]));
  assert.deepEqual(names(list), ["b", "c"]);
  assert.equal(list.find("default/b")?.metadata.resourceVersion, "8");
});

test("a bookmark renders nothing", () => {
  const [list] = made();
  list.receive(sync([object("a")]));
  const before = list.items.value;
  list.receive(events());
  assert.equal(list.items.value, before);
});

test("objects stay while the connection is lost, and the list resumes", () => {
  const [list] = made();
  assert.deepEqual(list.request(), { op: "watch", path: "/apis/x", query: "labelSelector=a" });
  list.receive(sync([object("a")]));
  list.receive(sync([object("half")], true));
  list.disconnected();
  assert.equal(list.state.value, "stale");
  assert.deepEqual(names(list), ["a"]);
  assert.deepEqual(list.request(), { op: "watch", path: "/apis/x", query: "labelSelector=a", resourceVersion: "7" });
  assert.equal(list.state.value, "live");
  list.receive(events(["ADDED", object("b")]));
  assert.deepEqual(names(list), ["a", "b"]);
});

test("an expired version starts the list again", () => {
  const [list, connector] = made();
  const end = list.use();
  list.receive(sync([object("a")]));
  list.receive({ id: 1, type: "ERROR", status: { code: 410, reason: "Expired" } });
  mock.timers.tick(1);
  assert.equal(connector.renewed, 1);
  assert.equal("resourceVersion" in list.request(), false);
  assert.deepEqual(names(list), ["a"]); // until the new list is there
  list.receive(sync([object("b")]));
  assert.deepEqual(names(list), ["b"]);
  end();
});

test("a missing kind is absent and an error is shown; both are retried", () => {
  const [list, connector] = made();
  const end = list.use();
  list.receive({ id: 1, type: "ERROR", status: { code: 404 } });
  assert.equal(list.state.value, "absent");
  mock.timers.tick(2000);
  assert.equal(connector.renewed, 1);
  list.receive({ id: 1, type: "ERROR", status: { code: 403, message: "no" } });
  assert.equal(list.state.value, "error");
  assert.equal(list.problem.value?.message, "no");
  mock.timers.tick(3999);
  assert.equal(connector.renewed, 1);
  mock.timers.tick(1);
  assert.equal(connector.renewed, 2);
  end();
});

test("users share one subscription, which outlives them a little", () => {
  const [list, connector] = made();
  const first = list.use();
  const second = list.use();
  assert.equal(connector.subscribers.length, 1);
  first();
  second();
  assert.equal(connector.subscribers.length, 1);
  mock.timers.tick(10_000);
  const third = list.use();
  mock.timers.tick(60_000);
  assert.equal(connector.subscribers.length, 1);
  third();
  mock.timers.tick(60_000);
  assert.equal(connector.subscribers.length, 0);
});
