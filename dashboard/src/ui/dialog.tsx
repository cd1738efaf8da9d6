// SPDX-License-Identifier: Apache-2.0
// Modal dialogs on the browser's own <dialog>: focus, Escape and inertness come with it.

import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import type { ComponentChildren } from "preact";
import { Button } from "./controls.tsx";
import { t } from "../texts.ts";

const opened = signal<readonly (() => ComponentChildren)[]>([]);

/** Show a dialog; the function gets a callback that closes it. */
export function openDialog(render: (close: () => void) => ComponentChildren): void {
  const entry = () => render(() => (opened.value = opened.value.filter((each) => each !== entry)));
  opened.value = [...opened.value, entry];
}

export function Dialogs() {
  return <>{opened.value.map((render, index) => <Rendered key={index} render={render} />)}</>;
}

function Rendered({ render }: { render: () => ComponentChildren }) {
  return <>{render()}</>;
}

interface DialogProps {
  title: string;
  onClose: () => void;
  children: ComponentChildren;
  footer?: ComponentChildren;
  wide?: boolean;
  name?: string;
}

export function Dialog({ title, onClose, children, footer, wide, name = "" }: DialogProps) {
  const element = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    element.current?.showModal();
    // the first field, or the action: not the button that closes
    element.current?.querySelector<HTMLElement>(".dialog-content input, .dialog-content textarea, .dialog-content select, footer .button")?.focus();
  }, []);
  const cancel = (event: Event) => {
    event.preventDefault();
    onClose();
  };
  return (
    <dialog ref={element} class={`dialog ${name}${wide ? " wide" : ""}`} aria-label={title} onCancel={cancel} onClick={(event) => event.target === element.current && onClose()}>
      <div class="dialog-body">
        <header>
          <h2>{title}</h2>
          <Button kind="ghost" icon="cross" title={t.close} onClick={onClose} />
        </header>
        <div class="dialog-content">{children}</div>
        {footer && <footer>{footer}</footer>}
      </div>
    </dialog>
  );
}

interface Question {
  title: string;
  text: string;
  items?: readonly string[];
  action: string;
  danger?: boolean;
}

/** Ask; true if the user agrees. */
export function ask({ title, text, items = [], action, danger = true }: Question): Promise<boolean> {
  return new Promise((resolve) => {
    openDialog((close) => {
      const answer = (yes: boolean) => () => {
        close();
        resolve(yes);
      };
      const footer = (
        <>
          <Button onClick={answer(false)}>{t.cancel}</Button>
          <Button kind={danger ? "danger" : "primary"} onClick={answer(true)} id="confirm">{action}</Button>
        </>
      );
      return (
        <Dialog title={title} onClose={answer(false)} footer={footer}>
          <p>{text}</p>
          {items.length > 0 && <ul class="names">{items.slice(0, 50).map((item, index) => <li key={index}><bdi>{item}</bdi></li>)}{items.length > 50 && <li>{t.andMore(items.length - 50)}</li>}</ul>}
        </Dialog>
      );
    });
  });
}
