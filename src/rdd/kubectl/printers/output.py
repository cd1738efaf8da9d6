# SPDX-License-Identifier: Apache-2.0
"""The formats of `-o` that show whole objects: json, yaml, name, jsonpath, custom-columns.

A printer is a function from an object (or a List of them) to text. json and yaml
omit managed fields by default. Tables, which the server renders, are in
`tables.py`.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rdd.api.types import Object
from rdd.base.pflag import Flag, Flags
from rdd.kubectl.errors import KubectlError, unsupported
from rdd.kubectl.session import escape_html

Printer = Callable[[Object], str]

FLAGS = (
    Flag(
        "output",
        "output format: json, yaml, name, jsonpath=…, jsonpath-as-json=…, jsonpath-file=…,"
        " custom-columns=…, custom-columns-file=…",
        short="o",
    ),
    Flag("template", "template for -o jsonpath or custom-columns"),
    Flag("show-managed-fields", "keep managedFields in json and yaml", "bool"),
    Flag("allow-missing-template-keys", "a missing field prints nothing", "bool", default="true"),
)
_FORMATS = (
    "custom-columns,custom-columns-file,go-template,go-template-file,json,jsonpath,"
    "jsonpath-as-json,jsonpath-file,name,template,templatefile,yaml"
)


def printer(flags: Flags, *, also: str = "", form: str | None = None) -> Printer:
    """Return the printer for `-o`; `also` names formats that the caller handles itself."""
    text = flags.text("output") if form is None else form
    name, equals, argument = text.partition("=")
    argument = argument if equals else flags.text("template")
    keeps_managed_fields = flags.truth("show-managed-fields")
    if name in ("json", "yaml") and not equals:
        render = json_text if name == "json" else YamlPrinter()
        return lambda obj: render(obj if keeps_managed_fields else without_managed_fields(obj))
    if text == "name":
        return name_text
    if name.startswith(("go-template", "template")):
        raise unsupported(f"output format {name!r}")
    if name in ("jsonpath", "jsonpath-as-json", "jsonpath-file"):
        return _jsonpath(name, argument)
    if name in ("custom-columns", "custom-columns-file"):
        from rdd.kubectl.printers.custom_columns import CustomColumns

        return CustomColumns(name, argument, no_headers=flags.truth("no-headers"))
    formats = ",".join(sorted([*_FORMATS.split(","), *filter(None, also.split(","))]))
    raise KubectlError(
        f'unable to match a printer suitable for the output format "{text}",'
        f" allowed formats are: {formats}"
    )


def json_text(value: Any) -> str:
    """Encode a value as JSON in kubectl's layout."""
    text = json.dumps(value, indent=4, sort_keys=True, ensure_ascii=False)
    return f"{escape_html(text)}\n"


class YamlPrinter:
    """Prints objects as YAML documents, with separators between them."""

    def __init__(self) -> None:
        self._is_first = True

    def __call__(self, obj: Any) -> str:
        text = yaml_text(obj)
        separator = "" if self._is_first else "---\n"
        self._is_first = False
        return separator + text


def yaml_text(value: Any) -> str:
    """Encode a value as one YAML document."""
    from rdd.api.yamlcodec import encode_yaml

    return encode_yaml(value).decode()


def without_managed_fields(obj: Object) -> Object:
    """Return an object, or a List, without managedFields."""
    if isinstance(obj.get("items"), list):
        return {**obj, "items": [without_managed_fields(item) for item in obj["items"]]}
    metadata = obj.get("metadata")
    if isinstance(metadata, dict) and "managedFields" in metadata:
        rest = {k: v for k, v in metadata.items() if k != "managedFields"}
        return {**obj, "metadata": rest}
    return obj


def name_text(obj: Object) -> str:
    """Return `kind.group/name`, one line per object."""
    if isinstance(obj.get("items"), list) and str(obj.get("kind", "")).endswith("List"):
        return "".join(map(name_text, obj["items"]))
    return f"{printed_name(obj)}\n"


def printed_name(obj: Object) -> str:
    """Return `configmap/a`, `role.rbac.authorization.k8s.io/b`."""
    name = (obj.get("metadata") or {}).get("name", "")
    kind = str(obj.get("kind", "")).lower()
    group = str(obj.get("apiVersion", "")).rpartition("/")[0]
    return f"{kind}.{group}/{name}" if group else f"{kind}/{name}"


def _jsonpath(name: str, argument: str) -> Printer:
    from rdd.api.jsonpath import JsonPathError
    from rdd.base import goformat
    from rdd.kubectl.printers.templates import Template

    if not argument:
        raise KubectlError("template format specified but no template given")
    if name == "jsonpath-file":
        argument = read_template(argument)
    template = Template(argument)

    def show(obj: Object) -> str:
        try:
            if name == "jsonpath-as-json":
                return json_text(template.values(obj))
            return template.render(obj)
        except JsonPathError as error:
            raise KubectlError(
                f'error executing jsonpath "{argument}": Error executing template: {error}.'
                " Printing more information for debugging the template:\n"
                f"\ttemplate was:\n\t\t{argument}\n"
                f"\tobject given to jsonpath engine was:\n\t\t{goformat.syntax(obj)}\n\n"
            ) from None

    return show


def read_template(path: str) -> str:
    """Return the text of a template file."""
    try:
        return Path(path).read_text()
    except OSError as error:
        raise KubectlError(
            f"error reading --template {path}, open {path}: {(error.strerror or '').lower()}\n"
        ) from None
