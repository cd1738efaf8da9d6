// SPDX-License-Identifier: Apache-2.0
// The page is served by the daemon below "/" with a strict CSP: no inline scripts, no inline
// styles, no data: URLs of scripts. File names contain a hash of their content, so that the
// daemon can send them with an unlimited lifetime.
import { defineConfig } from "vite";

export default defineConfig({
  base: "./",
  build: {
    outDir: "dist",
    target: "es2022",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    sourcemap: false,
  },
  server: { proxy: { "/k8s": "http://127.0.0.1:8099", "/session": "http://127.0.0.1:8099", "/ws": { target: "ws://127.0.0.1:8099", ws: true } } },
});
