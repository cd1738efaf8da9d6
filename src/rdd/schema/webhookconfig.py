# SPDX-License-Identifier: Apache-2.0
"""Validation of webhook client configs and review versions.

Admission webhooks and the conversion webhooks of CRDs share these rules.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from rdd.api.fielderrors import FieldError, invalid, required
from rdd.api.name_validation import dns1035_label_errors, dns1123_subdomain_errors
from rdd.base import gotext

REVIEW_VERSIONS = ("v1", "v1beta1")
"""The versions of AdmissionReview and ConversionReview that the server can send."""

_URL_FORM = "; desired format: https://host[/path]"


def client_config_errors(config: Mapping[str, Any], path: str) -> list[FieldError]:
    """Return the errors of a client config: exactly one of URL and service is required."""
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        return [required(path, "exactly one of url or service is required")]
    if url is not None:
        return url_errors(url, f"{path}.url")
    return service_errors(service or {}, f"{path}.service")


def url_errors(url: str, path: str) -> list[FieldError]:
    """Return the errors of a webhook URL: https, a host and only a path."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        why = f"parse {gotext.quote(url)}: {error}"
        return [required(path, f"url must be a valid URL: {why}{_URL_FORM}")]
    errors: list[FieldError] = []
    if parts.scheme != "https":
        detail = f"'https' is the only allowed URL scheme{_URL_FORM}"
        errors.append(invalid(path, parts.scheme, detail))
    user, at, host = parts.netloc.rpartition("@")
    if not host:
        errors.append(invalid(path, host, f"host must be specified{_URL_FORM}"))
    if at:
        errors.append(invalid(path, user, "user information is not permitted in the URL"))
    if parts.fragment:
        errors.append(invalid(path, parts.fragment, "fragments are not permitted in the URL"))
    if parts.query:
        errors.append(invalid(path, parts.query, "query parameters are not permitted in the URL"))
    return errors


def service_errors(service: Mapping[str, Any], path: str) -> list[FieldError]:
    """Return the errors of a reference to a service."""
    errors: list[FieldError] = []
    # Kubernetes passes name and namespace to its check in the wrong order: what it reports as
    # the missing name is the namespace, and the other way round.
    if not service.get("namespace"):
        errors.append(required(f"{path}.name"))
    if not service.get("name"):
        errors.append(required(f"{path}.namespace"))
    port = service.get("port", 443)
    if not 1 <= port <= 65535:
        detail = "port is not valid: must be between 1 and 65535, inclusive"
        errors.append(invalid(f"{path}.port", port, detail))
    return errors + _path_errors(service.get("path"), f"{path}.path")


def _path_errors(url_path: str | None, path: str) -> list[FieldError]:
    if not url_path or url_path == "/":
        return []
    if url_path == "//":
        return [invalid(path, url_path, "segment[0] may not be empty")]
    errors: list[FieldError] = []
    if not url_path.startswith("/"):
        errors.append(invalid(path, url_path, "must start with a '/'"))
    for i, segment in enumerate(url_path[1:].removesuffix("/").split("/")):
        if not segment:
            errors.append(invalid(path, url_path, f"segment[{i}] may not be empty"))
            continue
        for why in dns1123_subdomain_errors(segment):
            errors.append(invalid(path, url_path, f"segment[{i}]: {why}"))
    return errors


def review_version_errors(
    versions: Sequence[str], path: str, *, must_be_known: bool, detail: str = ""
) -> list[FieldError]:
    """Return the errors of review versions; `detail` explains the error of an empty list."""
    if not versions:
        return [required(path, detail)]
    errors: list[FieldError] = []
    seen: set[str] = set()
    for i, version in enumerate(versions):
        if version in seen:
            errors.append(invalid(f"{path}[{i}]", version, "duplicate version"))
            continue
        seen.add(version)
        for why in dns1035_label_errors(version):
            errors.append(invalid(f"{path}[{i}]", version, why))
    if must_be_known and not seen.intersection(REVIEW_VERSIONS):
        detail = f"must include at least one of {', '.join(REVIEW_VERSIONS)}"
        errors.append(invalid(path, list(versions), detail))
    return errors
