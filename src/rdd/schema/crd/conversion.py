# SPDX-License-Identifier: Apache-2.0
"""The conversion settings of a CustomResourceDefinition.

Error paths are those of Kubernetes' internal form, in which the webhook's
members sit directly below spec.conversion.
"""

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from rdd.api import name_validation
from rdd.api.fielderrors import FieldError, forbidden, invalid, required
from rdd.base import gotext
from rdd.schema.crd.names import choice_errors

REVIEW_VERSIONS = ("v1", "v1beta1")
"""Versions of ConversionReview the server can send."""

_FIELD = "spec.conversion"
_FORM = "; desired format: https://host[/path]"
_UNWANTED = "should not be set when strategy is not set to Webhook"


def conversion_errors(
    conversion: Mapping[str, Any] | None,
    *,
    require_known_review: bool = True,
    check_ca_bundle: bool = False,
) -> list[FieldError]:
    """Errors of spec.conversion.

    On update an old definition whose review versions were unknown, or whose CA
    bundle was broken, may stay as it is: the caller says what to require.
    """
    if conversion is None:
        return []
    strategy = conversion.get("strategy") or ""
    errors = choice_errors(f"{_FIELD}.strategy", strategy, ("None", "Webhook"))
    webhook = conversion.get("webhook") or {}
    config = webhook.get("clientConfig")
    versions = webhook.get("conversionReviewVersions") or ()
    at = f"{_FIELD}.webhookClientConfig"
    if strategy != "Webhook":
        if config is not None:
            errors.append(forbidden(at, _UNWANTED))
        if versions:
            errors.append(forbidden(f"{_FIELD}.conversionReviewVersions", _UNWANTED))
        return errors
    if config is None:
        errors.append(required(at, "required when strategy is set to Webhook"))
    else:
        errors += _client_errors(config, at)
        if check_ca_bundle and config.get("caBundle"):
            errors += ca_bundle_errors(config["caBundle"], field=f"{at}.caBundle")
    return errors + _review_errors(versions, require_known=require_known_review)


def has_known_review(conversion: Mapping[str, Any] | None) -> bool:
    """Whether a definition names a review version the server knows, or none at all."""
    versions = ((conversion or {}).get("webhook") or {}).get("conversionReviewVersions") or ()
    return not versions or any(v in REVIEW_VERSIONS for v in versions)


def ca_bundle_errors(bundle: str, *, field: str) -> list[FieldError]:
    """Errors of a CA bundle (base64 of PEM certificates)."""
    why = "unable to parse bytes as PEM block"
    try:
        text = base64.b64decode(bundle, validate=True).decode("latin-1")
    except (binascii.Error, ValueError):
        text = ""
    block = re.search(
        r"-----BEGIN CERTIFICATE-----\s+([A-Za-z0-9+/=\s]+)-----END CERTIFICATE-----", text
    )
    if block:
        try:
            base64.b64decode("".join(block[1].split()), validate=True)
            return []
        except binascii.Error:
            pass
    return [invalid(field, bundle, f"unable to load root certificates: {why}")]


def _client_errors(config: Mapping[str, Any], field: str) -> list[FieldError]:
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        return [required(field, "exactly one of url or service is required")]
    if url is not None:
        return webhook_url_errors(url, field=f"{field}.url")
    return webhook_service_errors(service or {}, field=f"{field}.service")


def webhook_url_errors(url: str, *, field: str) -> list[FieldError]:
    """Errors of the URL of a webhook: https, a host, and nothing behind the path."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        why = f"parse {gotext.quote(url)}: {error}"
        return [required(field, f"url must be a valid URL: {why}{_FORM}")]
    errors: list[FieldError] = []
    if parts.scheme != "https":
        detail = f"'https' is the only allowed URL scheme{_FORM}"
        errors.append(invalid(field, parts.scheme, detail))
    user, at, host = parts.netloc.rpartition("@")
    if not host:
        errors.append(invalid(field, host, f"host must be provided{_FORM}"))
    if at:
        errors.append(invalid(field, user, "user information is not permitted in the URL"))
    if parts.fragment:
        errors.append(invalid(field, parts.fragment, "fragments are not permitted in the URL"))
    if parts.query:
        errors.append(invalid(field, parts.query, "query parameters are not permitted in the URL"))
    return errors


def webhook_service_errors(service: Mapping[str, Any], *, field: str) -> list[FieldError]:
    """Errors of a reference to a service that answers a webhook."""
    errors: list[FieldError] = []
    # Kubernetes passes name and namespace to its check in the wrong order: what it reports as
    # the missing name is the namespace, and the other way round.
    if not service.get("namespace"):
        errors.append(required(f"{field}.name", "service name is required"))
    if not service.get("name"):
        errors.append(required(f"{field}.namespace", "service namespace is required"))
    port = service.get("port", 443)
    if not 1 <= port <= 65535:
        detail = "port is not valid: must be between 1 and 65535, inclusive"
        errors.append(invalid(f"{field}.port", port, detail))
    path = service.get("path")
    if path in (None, "", "/"):
        return errors
    if path == "//":
        return [*errors, invalid(f"{field}.path", path, "segment[0] may not be empty")]
    if not path.startswith("/"):
        errors.append(invalid(f"{field}.path", path, "must start with a '/'"))
    for position, step in enumerate(path[1:].removesuffix("/").split("/")):
        if not step:
            detail = f"segment[{position}] may not be empty"
            errors.append(invalid(f"{field}.path", path, detail))
            continue
        for why in name_validation.dns1123_subdomain_errors(step):
            errors.append(invalid(f"{field}.path", path, f"segment[{position}]: {why}"))
    return errors


def _review_errors(versions: Sequence[str], *, require_known: bool) -> list[FieldError]:
    field = f"{_FIELD}.conversionReviewVersions"
    if not versions:
        return [required(field)]
    errors: list[FieldError] = []
    seen: set[str] = set()
    for position, version in enumerate(versions):
        if version in seen:
            errors.append(invalid(f"{field}[{position}]", version, "duplicate version"))
            continue
        seen.add(version)
        for why in name_validation.dns1035_label_errors(version):
            errors.append(invalid(f"{field}[{position}]", version, why))
    if require_known and not seen.intersection(REVIEW_VERSIONS):
        detail = f"must include at least one of {', '.join(REVIEW_VERSIONS)}"
        errors.append(invalid(field, list(versions), detail))
    return errors
