// SPDX-License-Identifier: Apache-2.0
// Kubernetes: state, version, context and the address of the cluster.

import { app, stores } from "../api/stores.ts";
import { mergePatch, resources } from "../api/kube.ts";
import { condition } from "../api/objects.ts";
import { session } from "../api/session.ts";
import { link } from "../router.ts";
import { t } from "../texts.ts";
import { Badge, Button, Card, Command, Empty, Fact, Facts, Spinner } from "../ui/controls.tsx";
import { ask } from "../ui/dialog.tsx";
import { useList } from "../ui/hooks.ts";

/** The name of the context is that of the instance: rancher-desktop-2. */
export function contextName(instance: string | undefined): string {
  return `rancher-desktop-${instance ?? "2"}`;
}

export function Kubernetes() {
  useList(stores.apps);
  const current = app.value;
  if (!current) return stores.apps.state.value === "loading" ? <div class="empty"><Spinner /></div> : <Empty icon="wheel" title={t.settings.noApp} />;
  const settings = current.spec?.kubernetes;
  const ready = condition(current, "KubernetesReady");
  const enabled = settings?.enabled ?? false;
  const port = current.status?.kubernetesPort;
  const writes = session.value?.role !== "viewer";
  const toggle = async () => {
    const question = { title: enabled ? t.kubernetes.disable : t.kubernetes.enable, text: t.kubernetes.enableText, action: enabled ? t.kubernetes.disable : t.kubernetes.enable, danger: enabled };
    if (await ask(question)) await mergePatch(resources.apps, current, { spec: { kubernetes: { enabled: !enabled } } });
  };
  const context = contextName(session.value?.instance);
  return (
    <div class="page">
      <section class={`health ${ready?.status === "True" ? "good" : enabled ? "busy" : "idle"}`} aria-label={t.kubernetes.state}>
        <div class="health-line">
          <i aria-hidden="true" />
          <div class="health-text">
            <h2>{enabled ? t.kubernetes.enabled : t.kubernetes.disabled}</h2>
            {enabled && <p>{ready?.message}</p>}
          </div>
          {writes && <Button kind={enabled ? "plain" : "primary"} onClick={toggle}>{enabled ? t.kubernetes.disable : t.kubernetes.enable}</Button>}
        </div>
      </section>
      <div class="cards">
        <Card title={t.kubernetes.title}>
          <Facts>
            <Fact name={t.kubernetes.state}><Badge tone={ready?.status === "True" ? "good" : enabled ? "busy" : "idle"}>{ready?.reason ?? "–"}</Badge></Fact>
            <Fact name={t.kubernetes.version}>{settings?.version || "–"} {writes && <a href={link("settings")}>{t.kubernetes.change}</a>}</Fact>
            <Fact name={t.kubernetes.port}>{port || "–"}</Fact>
            {enabled && port ? <Fact name={t.kubernetes.link}><a href={`https://127.0.0.1:${port}/`} target="_blank" rel="noopener noreferrer">https://127.0.0.1:{port}/</a></Fact> : null}
          </Facts>
        </Card>
        {ready?.status === "True" && (
          <Card title={t.kubernetes.use}>
            <p>{t.kubernetes.useText}</p>
            <Command text={`kubectl --context ${context} get nodes`} />
            <Command text={`kubectl config use-context ${context}`} />
          </Card>
        )}
      </div>
    </div>
  );
}
