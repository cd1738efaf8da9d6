// SPDX-License-Identifier: Apache-2.0
// The start of the page.

import { render } from "preact";
import "./styles/base.css";
import "./styles/parts.css";
import "./styles/screens.css";
import { multiplexer } from "./api/socket.ts";
import { Shell } from "./shell.tsx";
import { startKeyboard } from "./ui/keyboard.ts";

const root = document.getElementById("root");
if (root) {
  root.replaceChildren();
  multiplexer.start();
  startKeyboard();
  render(<Shell />, root);
}
