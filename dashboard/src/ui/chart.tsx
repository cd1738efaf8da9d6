// SPDX-License-Identifier: Apache-2.0
// A line chart of the last samples, as SVG: a hundred points need no library.

import { useState } from "preact/hooks";
import { POINTS } from "../api/figures.ts";

export interface Series {
  name: string;
  values: readonly number[];
}

interface ChartProps {
  label: string;
  series: readonly Series[];
  format: (value: number) => string;
  height?: number;
  max?: number | undefined;
}

const WIDTH = 600;

/** The next "round" number, so that the scale does not move with every sample. */
export function scaleOf(values: readonly number[]): number {
  const top = Math.max(...values, 0);
  if (top <= 0) return 1;
  const step = 10 ** Math.floor(Math.log10(top));
  for (const factor of [1, 2, 5, 10]) if (top <= factor * step) return factor * step;
  return top;
}

export function Chart({ label, series, format, height = 120, max }: ChartProps) {
  const [hover, setHover] = useState<number | undefined>();
  const scale = max ?? scaleOf(series.flatMap((each) => each.values));
  const x = (index: number, count: number) => WIDTH - (count - 1 - index) * (WIDTH / (POINTS - 1));
  const y = (value: number) => height - 2 - (Math.min(value, scale) / scale) * (height - 4);
  const longest = Math.max(...series.map((each) => each.values.length), 0);
  const point = (event: PointerEvent) => {
    const box = (event.currentTarget as Element).getBoundingClientRect();
    const fromEnd = Math.round((1 - (event.clientX - box.left) / box.width) * (POINTS - 1));
    setHover(fromEnd < longest ? fromEnd : undefined);
  };
  const at = (each: Series) => each.values.at(-1 - (hover ?? 0));
  const text = series.map((each) => `${each.name} ${at(each) === undefined ? "–" : format(at(each) as number)}`).join(", ");
  return (
    <figure class="chart">
      <svg viewBox={`0 0 ${WIDTH} ${height}`} preserveAspectRatio="none" role="img" aria-label={`${label}: ${text}`} onPointerMove={point} onPointerLeave={() => setHover(undefined)}>
        {[0.25, 0.5, 0.75].map((part) => <line key={part} class="grid" x1={0} x2={WIDTH} y1={height * part} y2={height * part} />)}
        {series.map((each, index) => {
          const line = each.values.map((value, at) => `${x(at, each.values.length).toFixed(1)},${y(value).toFixed(1)}`);
          const start = x(0, each.values.length).toFixed(1);
          return (
            <g key={each.name} class={`series s${index}`}>
              {index === 0 && line.length > 1 && <polygon points={`${start},${height} ${line.join(" ")} ${WIDTH},${height}`} />}
              <polyline points={line.join(" ")} />
            </g>
          );
        })}
        {hover !== undefined && <line class="cursor" x1={x(POINTS - 1 - hover, POINTS)} x2={x(POINTS - 1 - hover, POINTS)} y1={0} y2={height} />}
      </svg>
      {height >= 80 && (
        <figcaption>
          {series.map((each, index) => <span key={each.name} class={`legend s${index}`}>{each.name} <b>{at(each) === undefined ? "–" : format(at(each) as number)}</b></span>)}
          <span class="scale">{format(scale)}</span>
        </figcaption>
      )}
    </figure>
  );
}
