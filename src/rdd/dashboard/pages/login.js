// SPDX-License-Identifier: Apache-2.0
// Binds the new session to this browser: both sides derive a key that is never sent, and that
// scripts cannot read. See docs/dashboard-protocol.md.
"use strict";

const encode = (bytes) => btoa(String.fromCharCode(...new Uint8Array(bytes)));
const decode = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));

function store(value) {
  return new Promise((resolve, reject) => {
    const open = indexedDB.open("rdd", 1);
    open.onupgradeneeded = () => open.result.createObjectStore("session");
    open.onerror = () => reject(open.error);
    open.onblocked = () => reject(new Error("another tab keeps the storage of this page open"));
    open.onsuccess = () => {
      const change = open.result.transaction("session", "readwrite");
      change.objectStore("session").put(value, "current");
      change.oncomplete = () => { open.result.close(); resolve(); };
      change.onerror = () => reject(change.error);
    };
  });
}

async function login() {
  // The code is used by now; a reload or the history must not show it.
  history.replaceState(null, "", "/login");
  if (!window.isSecureContext || !crypto.subtle) {
    throw new Error("this browser offers no cryptography on this address; use another browser");
  }
  const curve = { name: "ECDH", namedCurve: "P-256" };
  const pair = await crypto.subtle.generateKey(curve, false, ["deriveKey"]);
  const answer = await fetch("/session/bind", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ key: encode(await crypto.subtle.exportKey("raw", pair.publicKey)) }),
  });
  const bound = await answer.json();
  if (!answer.ok) throw new Error(bound.message);
  const key = await crypto.subtle.deriveKey(
    { name: "ECDH", public: await crypto.subtle.importKey("raw", decode(bound.key), curve, false, []) },
    pair.privateKey,
    { name: "HMAC", hash: "SHA-256", length: 256 },
    false,
    ["sign", "verify"],
  );
  await store({ session: bound.session, key });
  location.replace("/");
}

login().catch((error) => {
  document.title = "rdd: login failed";
  document.querySelector("h1").textContent = "Login failed";
  document.getElementById("state").textContent = `${error.message}. Run "rdd dashboard" again.`;
});
