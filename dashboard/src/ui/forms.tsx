// SPDX-License-Identifier: Apache-2.0
// Dialogs with a form: fields described as data, one submit action, errors beside the button.

import { useState } from "preact/hooks";
import { Button, Field } from "./controls.tsx";
import { Dialog, openDialog } from "./dialog.tsx";
import { t } from "../texts.ts";

export interface FormField {
  name: string;
  label: string;
  hint?: string;
  placeholder?: string;
  required?: boolean;
  initial?: string;
  kind?: "text" | "lines" | "checkbox" | "select" | "file";
  options?: readonly string[];
}

export type Values = Record<string, string>;

interface Form {
  title: string;
  fields: readonly FormField[];
  action: string;
  submit: (values: Values, files: Record<string, File | undefined>) => Promise<unknown>;
  text?: string;
}

/** Open a form; it closes when `submit` succeeds. */
export function openForm(form: Form): void {
  openDialog((close) => <FormDialog form={form} close={close} />);
}

function FormDialog({ form, close }: { form: Form; close: () => void }) {
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    const element = event.currentTarget as HTMLFormElement;
    const data = new FormData(element);
    const values: Values = {};
    const files: Record<string, File | undefined> = {};
    for (const { name, kind } of form.fields) {
      const value = data.get(name);
      if (value instanceof File) files[name] = value.size || value.name ? value : undefined;
      else values[name] = kind === "checkbox" ? (value ? "true" : "") : (value ?? "").trim();
    }
    setBusy(true);
    setError("");
    try {
      await form.submit(values, files);
      close();
    } catch (failure) {
      setError(failure instanceof Error ? failure.message : String(failure));
      setBusy(false);
    }
  };
  return (
    <Dialog title={form.title} onClose={close}>
      <form onSubmit={submit} class="form">
        {form.text && <p>{form.text}</p>}
        {form.fields.map((field) => <Input key={field.name} field={field} />)}
        {error && <p class="form-error" role="alert">{error}</p>}
        <footer>
          <Button onClick={close}>{t.cancel}</Button>
          <Button kind="primary" type="submit" disabled={busy}>{busy ? t.working : form.action}</Button>
        </footer>
      </form>
    </Dialog>
  );
}

function Input({ field }: { field: FormField }) {
  const { name, label, hint, placeholder, required, initial = "", kind = "text", options = [] } = field;
  const extra = hint ? { hint } : {};
  if (kind === "checkbox") {
    return (
      <label class="check-field">
        <input type="checkbox" name={name} defaultChecked={initial === "true"} />
        <span>{label}</span>
        {hint && <small>{hint}</small>}
      </label>
    );
  }
  if (kind === "select") {
    return (
      <Field label={label} {...extra}>
        <select name={name} defaultValue={initial}>{options.map((option) => <option key={option} value={option}>{option}</option>)}</select>
      </Field>
    );
  }
  if (kind === "lines") {
    return (
      <Field label={label} {...extra}>
        <textarea name={name} rows={3} placeholder={placeholder} spellcheck={false} defaultValue={initial} />
      </Field>
    );
  }
  if (kind === "file") return <Field label={label} {...extra}><input type="file" name={name} required={required} /></Field>;
  return (
    <Field label={label} {...extra}>
      <input type="text" name={name} placeholder={placeholder} required={required} defaultValue={initial} autocomplete="off" spellcheck={false} />
    </Field>
  );
}
