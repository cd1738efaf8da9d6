// SPDX-License-Identifier: Apache-2.0
// Icons as paths of a 16 × 16 grid, drawn with the colour of the text around them.

const PATHS = {
  home: "M2.5 7.5 8 3l5.5 4.5M4 6.5V13h8V6.5",
  box: "M8 1.8 13.8 5v6L8 14.2 2.2 11V5zM2.2 5 8 8.2 13.8 5M8 8.2v6",
  layers: "M8 2 14 5.2 8 8.4 2 5.2zM2.4 8.2 8 11.2l5.6-3M2.4 11 8 14l5.6-3",
  disk: "M2.5 4c0-1.1 2.5-2 5.5-2s5.5.9 5.5 2-2.5 2-5.5 2-5.5-.9-5.5-2zM2.5 4v8c0 1.1 2.5 2 5.5 2s5.5-.9 5.5-2V4M2.5 8c0 1.1 2.5 2 5.5 2s5.5-.9 5.5-2",
  network: "M8 5.5V9M3.5 12V9h9v3M6 2h4v3.5H6zM2 12h3v2.5H2zM11 12h3v2.5h-3z",
  port: "M3 3h10v7H9.5V13h-3v-3H3zM5.5 3v3M8 3v3M10.5 3v3",
  machine: "M2 3h12v7.5H2zM5.5 13.5h5M8 10.5v3",
  camera: "M2 5h3l1-1.5h4L11 5h3v8H2zM8 6.8a2.2 2.2 0 1 0 0 4.4 2.2 2.2 0 0 0 0-4.4z",
  wheel: "M8 2.2 12.7 4.4l1.1 5-3.2 4H5.4l-3.2-4 1.1-5zM8 5v3l2.6 1.8M8 8 5.4 9.8M8 8V5",
  gear: "M8 5.6a2.4 2.4 0 1 0 0 4.8 2.4 2.4 0 0 0 0-4.8zM8 1.8v2M8 12.2v2M1.8 8h2M12.2 8h2M3.6 3.6 5 5M11 11l1.4 1.4M12.4 3.6 11 5M5 11l-1.4 1.4",
  pulse: "M1.5 8.5h3L6.5 4l3 8 2-3.5h3",
  clock: "M8 2.2a5.8 5.8 0 1 0 0 11.6A5.8 5.8 0 0 0 8 2.2zM8 5v3.2l2.2 1.6",
  log: "M3 2.5h10v11H3zM5.5 5.5h5M5.5 8h5M5.5 10.5h3",
  play: "M4.5 3v10l8-5z",
  stop: "M4 4h8v8H4z",
  pause: "M5 3.5v9M11 3.5v9",
  restart: "M13 8a5 5 0 1 1-1.6-3.7M13 2.5v2.8h-2.8",
  trash: "M3 4.5h10M6.5 4.5V3h3v1.5M4.5 4.5 5 13h6l.5-8.5M7 7v3.5M9 7v3.5",
  plus: "M8 3v10M3 8h10",
  more: "M3.2 8h.6M7.7 8h.6M12.2 8h.6",
  search: "M7 2.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9zM10.4 10.4 13.5 13.5",
  copy: "M5.5 5.5h7v8h-7zM3.5 10.5v-8h7",
  check: "M3 8.5 6.5 12 13 4.5",
  cross: "M4 4l8 8M12 4l-8 8",
  down: "M4 6l4 4 4-4",
  up: "M4 10l4-4 4 4",
  right: "M6 4l4 4-4 4",
  download: "M8 2.5v7.5M4.5 7 8 10.5 11.5 7M3 13.5h10",
  upload: "M8 10.5V3M4.5 6.5 8 3l3.5 3.5M3 13.5h10",
  folder: "M2 4h4l1.5 1.5H14V13H2z",
  file: "M4 2h5l3 3v9H4zM9 2v3h3",
  link: "M6.5 9.5l3-3M7 4.5 8.5 3a3 3 0 0 1 4.5 4.5L11.5 9M9 11.5 7.5 13A3 3 0 0 1 3 8.5L4.5 7",
  warning: "M8 2.5 14.5 13.5h-13zM8 6.5v3.2M8 11.6v.1",
  lock: "M4 7.5h8V13H4zM5.5 7.5V5a2.5 2.5 0 0 1 5 0v2.5",
  menu: "M2.5 4.5h11M2.5 8h11M2.5 11.5h11",
  tag: "M2.5 2.5h5l6 6-5 5-6-6zM5.2 5.2h.01",
  shield: "M8 2 13 4v4c0 3-2 5-5 6-3-1-5-3-5-6V4z",
  terminal: "M2 3h12v10H2zM4.5 6 6.5 8l-2 2M8 10h3",
  undo: "M5.5 3.5 2.5 6.5l3 3M2.5 6.5h7a3.5 3.5 0 0 1 0 7H7",
  bell: "M8 2.2c-2.2 0-3.5 1.6-3.5 4 0 3-1 4-1.5 4.8h10c-.5-.8-1.5-1.8-1.5-4.8 0-2.4-1.3-4-3.5-4zM6.7 13.2a1.4 1.4 0 0 0 2.6 0",
  bellOff: "M8 2.2c-2.2 0-3.5 1.6-3.5 4 0 3-1 4-1.5 4.8h10c-.5-.8-1.5-1.8-1.5-4.8 0-2.4-1.3-4-3.5-4zM6.7 13.2a1.4 1.4 0 0 0 2.6 0M2 2l12 12",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name }: { name: IconName }) {
  return (
    <svg class="icon" viewBox="0 0 16 16" aria-hidden="true" focusable="false">
      <path d={PATHS[name]} />
    </svg>
  );
}

/** The logo of the product: part of the page, because an image would be requested again. */
export function Logo({ size }: { size: number }) {
  return (
    <svg viewBox="0 0 32 32" width={size} height={size} aria-hidden="true" focusable="false">
      <rect x="2" y="2" width="28" height="28" rx="7" fill="#2f6feb" />
      <path d="M9 22V10h6a4 4 0 0 1 1.6 7.7L19 22M9 18h6" fill="none" stroke="#fff" stroke-width="2.6" stroke-linecap="round" stroke-linejoin="round" />
      <circle cx="23" cy="11" r="2.4" fill="#7ee2a8" />
    </svg>
  );
}
