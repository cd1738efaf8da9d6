# SPDX-License-Identifier: Apache-2.0
"""Redaction of secrets in texts and objects before they leave the machine.

Known secrets (the tokens of the kubeconfig) are replaced everywhere. Likely secrets are
replaced too: bearer tokens, JSON Web Tokens, private keys, passwords in URLs, values next to
words such as `password` or `token`, and texts that look random (`entropy`). Kinds that users
fill with whatever they like lose their values and keep the names of their entries, which help
to diagnose a fault: Secrets, ConfigMaps outside of rdd's namespace, environments of containers.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from rdd.api import names
from rdd.daemon.support import entropy

REDACTED = "REDACTED"
_ENVIRONMENTS = ("env", "environment", "Env", "buildArgs")

_SECRET_NAME = re.compile(
    r"TOKEN|SECRET|PASSW|CREDENTIAL|PRIVATE|COOKIE|SESSION|AUTH|(?:^|_)KEYS?(?:$|_)|(?:API|ACCESS)_?KEY",
    re.IGNORECASE,
)
# Texts are long and of any origin. A pattern that could begin at every character of a run and
# read on to its end would take hours, so each begins where a run does, and never goes back.
_PATTERNS = (
    (re.compile(
        r"-----BEGIN [A-Z ]*+(?<=PRIVATE KEY)-----(?:(?!-----BEGIN ).)*?"
        r"-----END [A-Z ]*+(?<=PRIVATE KEY)-----", re.S),
     REDACTED),
    # Quoted in a log line, a key has its line breaks escaped and may be cut off.
    (re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----[^\s\"]*"), REDACTED),
    (re.compile(r"(?<![\w-])(?=[\w-]*+\.[\w-]++\.)([\w-]*?)eyJ[\w-]{5,}+\.[\w-]++\.[\w-]*+"),
     r"\1" + REDACTED),
    (re.compile(r"(\bBearer\s+)[^\s\"',]+", re.I), r"\1" + REDACTED),
    (re.compile(r"(\bBasic\s+)[A-Za-z0-9+/=]{8,}"), r"\1" + REDACTED),
    (re.compile(r"(\w://[^\s/:@\"]*):[^\s/@\"]+@"), r"\1:" + REDACTED + "@"),
    (re.compile(
        r"(?<![\w.-])(?=[\w.-]++\\?[\"']?\s*+[:=])((?>[\w.-]*?"
        r"(?:token|secret|passw(?:or)?d|api_?key|access_?key|client-key-data|private_?key)"
        r"[\w.-]*+\\?[\"']?\s*+[:=]\s*+\\?[\"']?))(?!REDACTED)[^\s\"',\\}]+", re.I),
     r"\1" + REDACTED),
)  # fmt: skip


class Redactor:
    """Replaces secrets; `known` are texts that must not occur anywhere."""

    def __init__(self, known: Iterable[str] = ()) -> None:
        # The longest first: one may be a part of another.
        self._known = sorted({text for text in known if len(text) >= 8}, key=len, reverse=True)

    def known(self, text: str) -> str:
        """Return a text without known secrets."""
        for secret in self._known:
            text = text.replace(secret, REDACTED)
        return text

    def text(self, text: str) -> str:
        """Return a text without known or likely secrets."""
        text = self.known(text)
        for pattern, replacement in _PATTERNS:
            text = pattern.sub(replacement, text)
        return entropy.redacted(text, REDACTED)

    def environment(self, variables: Mapping[str, str]) -> dict[str, str]:
        """Return variables with redacted values; those with secret names lose their value."""
        return {
            name: REDACTED if _SECRET_NAME.search(name) else self.text(value)
            for name, value in sorted(variables.items())
        }

    def object(self, obj: Mapping[str, Any]) -> dict[str, Any]:
        """Return an API object without secrets."""
        found: dict[str, Any] = self.value(dict(obj))
        metadata = found.get("metadata")
        if isinstance(metadata, dict):
            annotations = metadata.get("annotations")
            if isinstance(annotations, dict) and names.LAST_APPLIED in annotations:
                annotations[names.LAST_APPLIED] = REDACTED
        if _holds_anything(obj):
            for member in ("data", "stringData", "binaryData"):
                if isinstance(found.get(member), dict):
                    found[member] = dict.fromkeys(found[member], REDACTED)
        return found

    def value(self, value: Any) -> Any:
        """Return a JSON value without secrets; its structure stays."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.value(item) for item in value]
        if isinstance(value, dict):
            return {key: self._member(key, item) for key, item in value.items()}
        return value

    def _member(self, key: str, item: Any) -> Any:
        if isinstance(item, str) and item and _is_secret_member(key):
            return REDACTED
        if key in _ENVIRONMENTS:
            return _names_only(item)
        return self.value(item)


def _holds_anything(obj: Mapping[str, Any]) -> bool:
    """Return whether users put into an object what only they know."""
    kind = str(obj.get("kind", "")).lower()
    if kind in ("secret", "secrets"):
        return True
    metadata = obj.get("metadata")
    namespace = metadata.get("namespace") if isinstance(metadata, dict) else ""
    return kind in ("configmap", "configmaps") and namespace != names.SYSTEM_NAMESPACE


def _names_only(environment: Any) -> Any:
    """Return an environment without its values: `NAME=value`, {name, value} or {NAME: value}."""
    if isinstance(environment, dict):
        return dict.fromkeys(environment, REDACTED)
    if not isinstance(environment, list):
        return environment if environment is None else REDACTED
    found: list[Any] = []
    for item in environment:
        if isinstance(item, str):
            found.append(f"{item.partition('=')[0]}={REDACTED}")
        elif isinstance(item, dict):
            found.append({"name": item.get("name"), "value": REDACTED})
        else:
            found.append(REDACTED)
    return found


def _is_secret_member(key: str) -> bool:
    """Return whether a member holds a secret; `tokenExpiration…` and the like do not."""
    return bool(re.search(r"(token|password|secret|privateKey|apiKey|accessKey)$", key, re.I))
