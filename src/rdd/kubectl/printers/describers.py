# SPDX-License-Identifier: Apache-2.0
"""Descriptions of objects: their fields and their events.

The generic form prints every field under a readable title (`lastTransitionTime`
becomes `Last Transition Time`). Secrets, whose values are confidential, and config
maps, whose values are texts, have forms of their own.
"""

import base64
import re
from typing import Any

from rdd.api import names
from rdd.api.types import Object
from rdd.base import goformat
from rdd.kubectl.printers.tabwriter import aligned
from rdd.kubectl.selection import Ref
from rdd.kubectl.session import Session
from rdd.kubectl.verbs.events import interval, last_seen

_ACRONYMS = ("API", "URL", "UID", "OSB", "GUID")
_WORDS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|-+")
_IS_PLAIN = re.compile(r"[A-Za-z-]*").fullmatch
_SKIPPED = frozenset(
    f".metadata.{name}" for name in ("managedFields", "name", "namespace", "labels", "annotations")
)
_MAX_ANNOTATION = 140


def describe(session: Session, ref: Ref) -> str:
    """Return the description of an object."""
    obj = ref.object or {}
    kind = ref.resource.kind if not ref.resource.group else ""
    if kind == "ConfigMap":
        return _config_map(session, ref, obj)
    if kind == "Secret":
        return aligned(_head(obj) + _secret(obj), min_width=0, padding=2)
    if kind == "Namespace":
        return _namespace(session, obj)
    lines: list[str] = []
    _fields(lines, obj, 0, "")
    text = _head(obj, shows_namespace=True) + "\n".join(lines) + "\n"
    return aligned(text + _events(session, ref), min_width=0, padding=2)


def _head(obj: Object, *, shows_namespace: bool | None = None) -> str:
    metadata = obj.get("metadata") or {}
    lines = [f"Name:\t{metadata.get('name', '')}"]
    if shows_namespace or metadata.get("namespace"):
        lines.append(f"Namespace:\t{metadata.get('namespace', '')}")
    labels = metadata.get("labels") or {}
    pairs = [f"{key}={labels[key]}" for key in sorted(labels)] or ["<none>"]
    lines += [f"{'' if i else 'Labels:'}\t{pair}" for i, pair in enumerate(pairs)]
    return "\n".join([*lines, *_annotations(metadata.get("annotations") or {})]) + "\n"


def _annotations(annotations: dict[str, str]) -> list[str]:
    keys = sorted(key for key in annotations if key != names.LAST_APPLIED)
    if not keys:
        return ["Annotations:\t<none>"]
    lines: list[str] = []
    for index, key in enumerate(keys):
        title = "" if index else "Annotations:"
        value = annotations[key].removesuffix("\n")
        if len(value) + len(key) + 2 > _MAX_ANNOTATION or "\n" in value:
            lines.append(f"{title}\t{key}:")
            lines += [f"\t  {_shortened(line)}" for line in value.split("\n")]
        else:
            lines.append(f"{title}\t{key}: {value}")
    return lines


def _shortened(text: str) -> str:
    limit = _MAX_ANNOTATION - 2
    return f"{text[:limit]}..." if len(text) > limit else text


def _fields(lines: list[str], content: Object, level: int, prefix: str) -> None:
    indent = "  " * level
    for name in sorted(content):
        path, value = f"{prefix}.{name}", content[name]
        if path in _SKIPPED:
            continue
        title = _title(name)
        if isinstance(value, dict):
            lines.append(f"{indent}{title}:")
            _fields(lines, value, level + 1, path)
        elif isinstance(value, list):
            lines.append(f"{indent}{title}:")
            for item in value:
                if isinstance(item, dict):
                    _fields(lines, item, level + 1, path)
                else:
                    lines.append(f"{indent}  {goformat.plain(item)}")
        else:
            lines.append(f"{indent}{title}:\t{goformat.plain(value)}")


def _title(name: str) -> str:
    if not _IS_PLAIN(name):
        return name
    words = [
        word.upper() if word.upper() in _ACRONYMS else word[:1].upper() + word[1:]
        for word in _WORDS.findall(name)
    ]
    return " ".join(words)


def _config_map(session: Session, ref: Ref, obj: Object) -> str:
    data, binary = obj.get("data") or {}, obj.get("binaryData") or {}
    text = "\nData\n====\n"
    text += "".join(f"{key}:\n----\n{data[key]}\n\n" for key in sorted(data))
    text += "\nBinaryData\n====\n"
    for key in sorted(binary):
        text += f"{key}: {len(base64.b64decode(binary[key]))} bytes\n"
    # Values may contain tabs, so only the text around them is aligned.
    return (
        aligned(_head(obj), min_width=0, padding=2)
        + text
        + "\n"
        + aligned(_events(session, ref), min_width=0, padding=2)
    )


def _secret(obj: Object) -> str:
    data: dict[str, Any] = obj.get("data") or {}
    text = f"\nType:\t{obj.get('type', '')}\n\nData\n====\n"
    for key in sorted(data):
        value = base64.b64decode(data[key] or "")
        is_token = obj.get("type") == "kubernetes.io/service-account-token" and key == "token"
        shown = value.decode(errors="replace") if is_token else f"{len(value)} bytes"
        text += f"{key}:\t{shown}\n"
    return text


def _namespace(session: Session, obj: Object) -> str:
    name = obj["metadata"]["name"]
    status = obj.get("status") or {}
    text = _head(obj) + f"Status:\t{status.get('phase', '')}\n"
    if conditions := status.get("conditions"):
        text += "Conditions:\n  Type\tStatus\tLastTransitionTime\tReason\tMessage\n"
        text += "  ----\t------\t------------------\t------\t-------\n"
        for c in conditions:
            cells = [c.get(k, "") for k in ("type", "status", "lastTransitionTime", "reason")]
            text += "  " + "\t".join([*cells, c.get("message", "")]) + "\n"
    for plural, nothing, show in (
        ("resourcequotas", "No resource quota.", _quotas),
        ("limitranges", "No LimitRange resource.", _limits),
    ):
        resource = next(
            (r for r in session.resources.all if r.plural == plural and not r.group), None
        )
        if resource is not None:
            items = session.api.get(resource.path(name)).get("items") or []
            text += "\n" + (show(items) if items else f"{nothing}\n")
    return aligned(text, min_width=0, padding=2)


def _quotas(items: list[Object]) -> str:
    text = "Resource Quotas\n"
    for quota in items:
        status = quota.get("status") or {}
        hard, used = status.get("hard") or {}, status.get("used") or {}
        text += f"  Name:\t{quota['metadata']['name']}\n  Resource\tUsed\tHard\n"
        text += "  --------\t---\t---\n"
        text += "".join(f"  {key}\t{used.get(key, '')}\t{hard[key]}\n" for key in sorted(hard))
    return text


def _limits(items: list[Object]) -> str:
    text = "Resource Limits\n Type\tResource\tMin\tMax\tDefault Request\tDefault Limit\n"
    text += " ----\t--------\t---\t---\t---------------\t-------------\n"
    for item in items:
        for limit in (item.get("spec") or {}).get("limits") or ():
            parts = [limit.get(k) or {} for k in ("min", "max", "defaultRequest", "default")]
            for name in sorted({name for part in parts for name in part}):
                cells = "\t".join(str(part.get(name, "-")) for part in parts)
                text += f" {limit.get('type', '')}\t{name}\t{cells}\n"
    return text


def _events(session: Session, ref: Ref) -> str:
    if not session.flags.truth("show-events"):
        return ""
    metadata = (ref.object or {}).get("metadata") or {}
    fields = [f"involvedObject.name={ref.name}", f"involvedObject.kind={ref.resource.kind}"]
    if ref.namespace:
        fields.append(f"involvedObject.namespace={ref.namespace}")
    fields.append(f"involvedObject.uid={metadata.get('uid', '')}")
    resource = session.resource("events")
    # Events of cluster-scoped objects may be in any namespace.
    path = resource.path(ref.namespace)
    events: list[Object] = session.api.get(path, {"fieldSelector": ",".join(fields)}).get("items")
    if not events:
        return "Events:\t<none>\n"
    text = "Events:\n  Type\tReason\tAge\tFrom\tMessage\n  ----\t------\t----\t----\t-------\n"
    for event in sorted(events, key=last_seen):
        source = (event.get("source") or {}).get("component") or event.get("reportingComponent")
        cells = [event.get("type", ""), event.get("reason", ""), interval(event), source or ""]
        text += "  " + "\t".join([*cells, str(event.get("message", "")).strip()]) + "\n"
    return text
