// SPDX-License-Identifier: Apache-2.0
// After `vite build`: the build's identity in index.html, the licences of everything that the
// bundle contains, and compressed copies of all files.
//
//   node finish.ts DIST BUILD

import { existsSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";

interface Lock {
  packages: Record<string, { version?: string; license?: string; dev?: boolean; optional?: boolean }>;
}

// Vite puts its helper for loading modules into the bundle.
const ALSO = ["node_modules/vite"];

function licence(folder: string): string {
  const file = readdirSync(folder).find((name) => /^(licen[cs]e|copying)/i.test(name));
  if (!file) throw new Error(`${folder} has no licence file`);
  const text = readFileSync(join(folder, file), "utf8");
  // of Vite only its own licence: what it bundles is not in the page
  return (text.split("# Licenses of bundled dependencies")[0] ?? "").trim();
}

function notices(): string {
  const { packages } = JSON.parse(readFileSync("package-lock.json", "utf8")) as Lock;
  const parts = ["The dashboard contains the following packages.\n"];
  for (const [folder, { version, license, dev }] of Object.entries(packages)) {
    if (!folder || (dev && !ALSO.includes(folder)) || !existsSync(folder)) continue;
    const name = folder.replace(/^.*node_modules\//, "");
    parts.push(`${"=".repeat(72)}\n${name} ${version} (${license})\n${"=".repeat(72)}\n${licence(folder)}\n`);
  }
  return parts.join("\n");
}

function* files(folder: string): Generator<string> {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) yield* files(path);
    else yield path;
  }
}

const [dist = "", build = ""] = process.argv.slice(2);
const index = join(dist, "index.html");
writeFileSync(index, readFileSync(index, "utf8").replace("<head>", `<head>\n    <meta name="rdd-build" content="${build}">`));
writeFileSync(join(dist, "THIRD-PARTY.txt"), notices());
for (const path of [...files(dist)]) {
  const content = readFileSync(path);
  if (content.length < 500) continue;
  writeFileSync(`${path}.gz`, gzipSync(content, { level: 9 }));
  writeFileSync(`${path}.br`, brotliCompressSync(content, { params: { [constants.BROTLI_PARAM_QUALITY]: 11 } }));
}
