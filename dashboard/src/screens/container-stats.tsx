// SPDX-License-Identifier: Apache-2.0
// Live figures of one container as charts.

import { useEffect } from "preact/hooks";
import { containerFigures, perSecond } from "../api/figures.ts";
import { bytes, memory, percent, rate } from "../format.ts";
import { t } from "../texts.ts";
import { Card, Spinner } from "../ui/controls.tsx";
import { Chart } from "../ui/chart.tsx";

const user = Symbol("stats of a container");

export function Stats({ id }: { id: string }) {
  useEffect(() => {
    containerFigures.show(user, [id]);
    return () => containerFigures.show(user, []);
  }, [id]);
  const latest = containerFigures.latest.value[id];
  const samples = containerFigures.history.get(id) ?? [];
  if (!latest) return <div class="empty"><Spinner label={t.stats.waiting} /></div>;
  const top = Math.max(...samples.map((each) => each.memory));
  return (
    <div class="cards stats">
      <Card title={t.stats.cpu} action={<b>{percent(latest.cpu)}</b>}>
        <Chart label={t.stats.cpu} format={percent} series={[{ name: t.stats.cpu, values: samples.map((each) => each.cpu) }]} />
      </Card>
      <Card title={t.stats.memory} action={<b>{memory(latest.memory)}{latest.memoryLimit ? <small> {t.stats.limit(memory(latest.memoryLimit))}</small> : null}</b>}>
        <Chart label={t.stats.memory} format={memory} max={top * 1.25} series={[{ name: t.stats.memory, values: samples.map((each) => each.memory) }]} />
      </Card>
      <Card title={t.stats.network} action={<small>{bytes(latest.networkRx)} / {bytes(latest.networkTx)}</small>}>
        <Chart label={t.stats.network} format={rate} series={[{ name: t.stats.received, values: perSecond(samples, "networkRx") }, { name: t.stats.sent, values: perSecond(samples, "networkTx") }]} />
      </Card>
      <Card title={t.stats.block} action={<small>{t.stats.pids(latest.pids)}</small>}>
        <Chart label={t.stats.block} format={rate} series={[{ name: t.stats.read, values: perSecond(samples, "blockRead") }, { name: t.stats.written, values: perSecond(samples, "blockWrite") }]} />
      </Card>
    </div>
  );
}
