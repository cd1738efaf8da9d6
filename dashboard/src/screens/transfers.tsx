// SPDX-License-Identifier: Apache-2.0
// Pulls, pushes, builds and scans with their progress and result, above the list of images.

import type { ComponentChildren } from "preact";
import { remove, resources, type Resource } from "../api/kube.ts";
import { condition, keyOf, type KubeObject, type Condition } from "../api/objects.ts";
import { isServed, stores } from "../api/stores.ts";
import type { Collection } from "../api/collection.ts";
import type { ImageBuildRequest, ImageScanRequest } from "../api/types.ts";
import { session } from "../api/session.ts";
import { bytes } from "../format.ts";
import { t } from "../texts.ts";
import { Button, Progress } from "../ui/controls.tsx";
import { Dialog, openDialog } from "../ui/dialog.tsx";
import { useList } from "../ui/hooks.ts";
import { LogView } from "./log-view.tsx";
import { ScanResult } from "./scan-result.tsx";

interface Transfer extends KubeObject {
  spec?: object;
  status?: {
    conditions?: Condition[];
    progress?: { current?: number; total?: number; layers?: number; layersDone?: number; message?: string };
    result?: string;
  };
}

export function Transfers() {
  return (
    <div class="transfers">
      <List resource={resources.imagePulls} store={stores.imagePulls} verb="pull" />
      <List resource={resources.imagePushes} store={stores.imagePushes} verb="push" />
      <List resource={resources.imageScans} store={stores.imageScans} verb="scan" extra={(request) => <ScanButton request={request as ImageScanRequest} />} />
      {isServed(resources.imageBuilds) && <List resource={resources.imageBuilds} store={stores.imageBuilds} verb="build" extra={(request) => <BuildLogButton request={request as ImageBuildRequest} />} />}
    </div>
  );
}

function subject(request: Transfer): string {
  const spec = (request.spec ?? {}) as { repoTag?: string; imageRef?: string; tags?: string[]; context?: string };
  const image = stores.images.items.value.find((each) => each.metadata.name === spec.imageRef);
  return spec.repoTag ?? image?.status?.repoTag ?? spec.tags?.join(", ") ?? spec.context ?? spec.imageRef ?? request.metadata.name;
}

function List<T extends Transfer>({ resource, store, verb, extra }: { resource: Resource; store: Collection<T>; verb: string; extra?: (request: T) => ComponentChildren }) {
  const requests = useList(store);
  return <>{requests.map((request) => <Row key={keyOf(request)} request={request} resource={resource} verb={verb}>{extra?.(request)}</Row>)}</>;
}

function Row({ request, resource, verb, children }: { request: Transfer; resource: Resource; verb: string; children?: ComponentChildren }) {
  const failed = condition(request, "Failed");
  const complete = condition(request, "Complete");
  const ended = failed?.status === "True" || complete?.status === "True";
  const { progress } = request.status ?? {};
  const name = `${t.images.verbs[verb]} ${subject(request)}`;
  const share = progress?.total ? (progress.current ?? 0) / progress.total : undefined;
  const detail = [progress?.layers ? t.images.layers(progress.layersDone ?? 0, progress.layers) : "", progress?.total ? `${bytes(progress.current ?? 0)} / ${bytes(progress.total)}` : "", progress?.message ?? complete?.message ?? ""].filter(Boolean).join(" · ");
  return (
    <div class="transfer">
      <span class="muted">{t.images.verbs[verb]}</span>
      {failed?.status === "True" ? (
        <p class="failed" role="alert"><b><bdi>{subject(request)}</bdi></b> {failed.message || failed.reason}</p>
      ) : (
        <>
          <p title={detail}><b><bdi>{subject(request)}</bdi></b> <span class="muted">{complete?.status === "True" ? t.images.complete : detail}</span></p>
          {ended ? <span /> : <Progress value={share} label={name} />}
        </>
      )}
      <span class="buttons">
        {children}
        {session.value?.role !== "viewer" && <Button small kind="ghost" icon="cross" title={ended ? t.images.dismiss(name) : t.images.cancelTransfer(name)} onClick={() => remove(resource, request)} />}
      </span>
    </div>
  );
}

function BuildLogButton({ request }: { request: ImageBuildRequest }) {
  const show = () => openDialog((close) => (
    <Dialog title={`${t.images.build} ${subject(request as Transfer)}`} onClose={close} wide>
      <div class="build-log"><LogView path={`/passthrough/image/build-log/${request.metadata.namespace}/${request.metadata.name}`} active={false} tail="" /></div>
    </Dialog>
  ));
  return <Button small onClick={show}>{t.images.showLog}</Button>;
}

function ScanButton({ request }: { request: ImageScanRequest }) {
  const result = request.status?.result;
  if (!result) return null;
  const show = () => openDialog((close) => (
    <Dialog title={t.images.scanTitle(subject(request as Transfer))} onClose={close} wide><ScanResult report={result} /></Dialog>
  ));
  return <Button small onClick={show}>{t.images.showResult}</Button>;
}
