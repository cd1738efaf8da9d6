// SPDX-License-Identifier: Apache-2.0
// Diagnostics: all checks, failed ones first, with their fix.

import { useState } from "preact/hooks";
import { annotate, resources } from "../api/kube.ts";
import { appMachine, restartMachine, retryApp } from "../api/requests.ts";
import { stores } from "../api/stores.ts";
import { condition } from "../api/objects.ts";
import { session } from "../api/session.ts";
import type { Diagnostic } from "../api/types.ts";
import { MUTED, RUN_REQUESTED, fixOf, isFailed, isMuted, type Fix } from "../state.ts";
import { t } from "../texts.ts";
import { Age, Badge, Button, Command, Empty, Problem, Spinner } from "../ui/controls.tsx";
import { useList } from "../ui/hooks.ts";
import { openPrune } from "./prune.tsx";

export function Diagnostics() {
  const all = useList(stores.diagnostics);
  useList(stores.limaVMs);
  const [showMuted, setShowMuted] = useState(false);
  const writes = session.value?.role !== "viewer";
  const failed = all.filter((each) => isFailed(each) && !isMuted(each));
  const muted = all.filter(isMuted);
  const rank = (each: Diagnostic) => (isFailed(each) ? 0 : 1);
  const shown = all.filter((each) => showMuted || !isMuted(each)).sort((a, b) => rank(a) - rank(b) || a.metadata.name.localeCompare(b.metadata.name));
  const state = stores.diagnostics.state.value;
  if (state === "error") return <Problem error={stores.diagnostics.problem.value ?? {}} />;
  if (all.length === 0) return state === "loading" ? <div class="empty"><Spinner /></div> : <Empty icon="pulse" title={t.diagnostics.empty} />;
  return (
    <>
      <div class="toolbar">
        <Badge tone={failed.length > 0 ? "bad" : "good"}>{t.diagnostics.failed(failed.length)}</Badge>
        {muted.length > 0 && <label class="check"><input type="checkbox" checked={showMuted} onChange={(event) => setShowMuted(event.currentTarget.checked)} />{t.diagnostics.showMuted} ({muted.length})</label>}
        <span class="gap" />
        {writes && <Button icon="restart" onClick={() => Promise.all(all.map(runAgain))}>{t.diagnostics.runAll}</Button>}
      </div>
      <ul class="checks">{shown.map((each) => <Check key={each.metadata.name} diagnostic={each} writes={writes} />)}</ul>
    </>
  );
}

function runAgain(diagnostic: Diagnostic): Promise<unknown> {
  return annotate(resources.diagnostics, diagnostic, { [RUN_REQUESTED]: String(Date.now()) });
}

async function fix(what: Fix): Promise<void> {
  if (what === "prune") openPrune();
  else if (what === "retry") await retryApp();
  else {
    const machine = appMachine(stores.limaVMs.items.value);
    if (machine) await restartMachine(machine);
  }
}

function Check({ diagnostic, writes }: { diagnostic: Diagnostic; writes: boolean }) {
  const healthy = condition(diagnostic, "Healthy");
  const failed = isFailed(diagnostic);
  const muted = isMuted(diagnostic);
  const { name } = diagnostic.metadata;
  const help = failed ? fixOf(diagnostic) : undefined;
  const { nextStep, evidence = [] } = diagnostic.status ?? {};
  const state = healthy?.status === "True" ? t.diagnostics.healthy : failed ? t.diagnostics.unhealthy : t.diagnostics.unknown;
  return (
    <li class={`check-row${muted ? " muted-row" : ""}`} data-check={name}>
      <div class="check-head">
        <Badge tone={failed ? (muted ? "idle" : "bad") : healthy?.status === "True" ? "good" : "idle"} title={healthy?.reason}>{state}</Badge>
        <h2>{t.diagnostics.checks[name] ?? name}</h2>
        <span class="muted"><Age time={healthy?.lastTransitionTime} /></span>
        {writes && help && <Button small kind="primary" onClick={() => fix(help)}>{t.diagnostics.fixes[help]}</Button>}
        {writes && <Button small kind="ghost" icon="restart" title={`${t.diagnostics.run}: ${name}`} onClick={() => runAgain(diagnostic)} />}
        {writes && (failed || muted) && <Button small kind="ghost" icon={muted ? "bell" : "bellOff"} title={`${muted ? t.diagnostics.unmute : t.diagnostics.mute}: ${name}`} onClick={() => annotate(resources.diagnostics, diagnostic, { [MUTED]: muted ? null : "true" })} />}
      </div>
      {healthy?.message && <p>{healthy.message}</p>}
      {failed && nextStep && <Command text={nextStep} />}
      {evidence.length > 0 && <details><summary>{t.diagnostics.evidence}</summary><pre>{evidence.join("\n")}</pre></details>}
    </li>
  );
}
