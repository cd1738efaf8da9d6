// SPDX-License-Identifier: Apache-2.0
// The session of this browser with the daemon (docs/dashboard-protocol.md). The page proves that
// it has the key of the session, and sends nothing but a nonce before the daemon has proved the
// same: a program that took the port while the daemon is down learns nothing.

import { signal } from "@preact/signals";
import type { Status } from "./objects.ts";

export const PROTOCOL = 1;

export interface Session {
  user: string;
  role: "admin" | "viewer";
  instance: string;
  version: string;
  build: string;
  csrf: string;
}

/** Why there is no session. */
export type Refusal = "loggedOut" | "outdated" | "unreachable";

export class SessionError extends Error {
  readonly refusal: Refusal;
  constructor(refusal: Refusal, message: string) {
    super(message);
    this.refusal = refusal;
  }
}

/** An error response of the API. */
export class ApiError extends Error {
  readonly status: Status;
  constructor(status: Status) {
    super(status.message || status.reason || `status ${status.code ?? "?"}`);
    this.status = status;
  }
  get code(): number {
    return this.status.code ?? 0;
  }
}

export const session = signal<Session | undefined>(undefined);

interface StoredKey {
  session: string;
  key: CryptoKey;
}

const encoder = new TextEncoder();

function base64url(data: ArrayBuffer | Uint8Array): string {
  const raw = data instanceof Uint8Array ? data : new Uint8Array(data);
  return btoa(String.fromCharCode(...raw)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

function storedKey(): Promise<StoredKey | undefined> {
  return new Promise((resolve, reject) => {
    const opening = indexedDB.open("rdd", 1);
    opening.onupgradeneeded = () => opening.result.createObjectStore("session");
    opening.onerror = () => reject(opening.error ?? new Error("IndexedDB"));
    opening.onsuccess = () => {
      const database = opening.result;
      const reading = database.transaction("session").objectStore("session").get("current");
      reading.onerror = () => reject(reading.error ?? new Error("IndexedDB"));
      reading.onsuccess = () => {
        database.close();
        resolve(reading.result as StoredKey | undefined);
      };
    };
  });
}

async function mac(key: CryptoKey, ...parts: string[]): Promise<string> {
  return base64url(await crypto.subtle.sign("HMAC", key, encoder.encode(parts.join("\n"))));
}

async function post(path: string, body: object, credentials: RequestCredentials): Promise<Response> {
  const init: RequestInit = {
    method: "POST",
    credentials,
    cache: "no-store",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(10_000),
  };
  try {
    return await fetch(path, init);
  } catch (error) {
    throw new SessionError("unreachable", String(error));
  }
}

let proving: Promise<Session> | undefined;

/** Prove the session to the daemon after the daemon has proved it to the page. */
export function prove(): Promise<Session> {
  proving ??= exchange().finally(() => (proving = undefined));
  return proving;
}

async function exchange(): Promise<Session> {
  const stored = await storedKey().catch(() => undefined);
  if (!stored) throw new SessionError("loggedOut", "no session");
  const host = location.host;
  const mine = base64url(crypto.getRandomValues(new Uint8Array(24)));
  const hello = await post("/session/hello", { session: stored.session, nonce: mine }, "omit");
  if (hello.status === 401) throw new SessionError("loggedOut", "the session has ended");
  const answer = (await hello.json().catch(() => ({}))) as { nonce?: string; proof?: string };
  const expected = await mac(stored.key, "rdd-server", host, mine, String(answer.nonce));
  if (!hello.ok || answer.proof !== expected) {
    throw new SessionError("unreachable", "another program answers on this port");
  }
  const nonce = String(answer.nonce);
  const proof = await mac(stored.key, "rdd-page", host, mine, nonce);
  const body = { session: stored.session, clientNonce: mine, nonce, proof, protocol: PROTOCOL };
  const reply = await post("/session", body, "same-origin");
  if (reply.status === 401 || reply.status === 403) throw new SessionError("loggedOut", "the session has ended");
  if (reply.status === 409) throw new SessionError("outdated", "the page is of another version");
  if (!reply.ok) throw new SessionError("unreachable", `status ${reply.status}`);
  session.value = (await reply.json()) as Session;
  return session.value;
}

/** A request with the session's cookie and proof; proves again, once, if the daemon was restarted. */
export async function request(path: string, init: RequestInit = {}): Promise<Response> {
  for (let attempt = 0; ; attempt += 1) {
    const { csrf } = session.value ?? (await prove());
    const headers = new Headers(init.headers);
    headers.set("X-Rdd-Csrf", csrf);
    const reply = await fetch(path, { cache: "no-store", credentials: "same-origin", ...init, headers });
    if (reply.status !== 401 || attempt > 0) return reply;
    session.value = undefined;
    await prove();
  }
}

/** The JSON of a response; an ApiError if it is an error. */
export async function json<T>(path: string, init: RequestInit = {}): Promise<T> {
  const reply = await request(path, init);
  const text = await reply.text();
  let body: unknown;
  try {
    body = text ? JSON.parse(text) : undefined;
  } catch {
    body = undefined;
  }
  if (reply.ok) return body as T;
  const status = (body ?? { message: text.trim().slice(0, 500) || reply.statusText }) as Status;
  throw new ApiError({ ...status, code: reply.status });
}

/** A path that works once, for a WebSocket or a download. */
export async function ticket(path: string): Promise<string> {
  const body = JSON.stringify({ path });
  const headers = { "Content-Type": "application/json" };
  return (await json<{ path: string }>("/ticket", { method: "POST", body, headers })).path;
}

/** The address of a WebSocket of this daemon. */
export async function socketUrl(path: string): Promise<string> {
  return `ws://${location.host}${await ticket(path)}`;
}

/** End the session in all windows. */
export async function logout(): Promise<void> {
  await request("/logout", { method: "POST" });
  session.value = undefined;
}
