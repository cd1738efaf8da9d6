# SPDX-License-Identifier: Apache-2.0
"""Validation of the conversion settings of a CustomResourceDefinition.

Error paths are those of Kubernetes' internal form, in which the members of the webhook are directly
below spec.conversion.
"""

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any

from rdd.api.fielderrors import FieldError, forbidden, invalid, required
from rdd.schema.crd.names import choice_errors
from rdd.schema.webhookconfig import (
    REVIEW_VERSIONS,
    client_config_errors,
    review_version_errors,
)

_FIELD = "spec.conversion"
_UNWANTED = "should not be set when strategy is not set to Webhook"


def conversion_errors(
    conversion: Mapping[str, Any] | None,
    *,
    require_known_review: bool = True,
    check_ca_bundle: bool = False,
) -> list[FieldError]:
    """Return the errors of spec.conversion.

    On update, unknown review versions and broken CA bundles of the stored definition remain
    accepted: the arguments select the strict rules.
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
        errors += client_config_errors(config, at)
        if check_ca_bundle and config.get("caBundle"):
            errors += ca_bundle_errors(config["caBundle"], field=f"{at}.caBundle")
    field = f"{_FIELD}.conversionReviewVersions"
    return errors + review_version_errors(versions, field, must_be_known=require_known_review)


def has_known_review(conversion: Mapping[str, Any] | None) -> bool:
    """Return whether a definition has a supported review version, or none at all."""
    versions = ((conversion or {}).get("webhook") or {}).get("conversionReviewVersions") or ()
    return not versions or any(v in REVIEW_VERSIONS for v in versions)


def ca_bundle_errors(bundle: str, *, field: str) -> list[FieldError]:
    """Return the errors of a CA bundle (PEM certificates in base64)."""
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
