# SPDX-License-Identifier: Apache-2.0
"""The reasons of the condition Ready of Checkouts and URLMonitors; docs/resources.md lists them."""

from typing import Final

from rdd.fetch.failures import FetchFailure
from rdd.runtime.conditions import FORWARDED, Reason, ReasonTable

READY: Final = "Ready"

_MEANINGS = {
    FetchFailure.OFFLINE: "this host has no network; the controller retries",
    FetchFailure.NAME_NOT_RESOLVED: "the name of the server cannot be resolved",
    FetchFailure.UNREACHABLE: "no connection, or one that was lost; the next attempt resumes",
    FetchFailure.NOT_TRUSTED: "the certificate of the server is not trusted",
    FetchFailure.PROXY_AUTHENTICATION: "the proxy requires a user name and a password",
    FetchFailure.NOT_FOUND: "the server does not have the file",
    FetchFailure.REJECTED: "the server rejects the request",
    FetchFailure.SERVER_ERROR: "the server fails; the controller retries",
    FetchFailure.CHECKSUM_MISMATCH: "the content has another digest; it was deleted",
    FetchFailure.TOO_LARGE: "the checksums, the signature or the content is too large",
    FetchFailure.SIGNATURE_MISMATCH: "the signature is wrong or cannot be verified; "
    "nothing was stored",
    FetchFailure.NO_CHECKSUM: "the publisher's checksums do not list the file",
    FetchFailure.INVALID_SOURCE: "the location cannot be fetched",
    FetchFailure.NOT_ALLOWED: "the deployment profile does not allow the location or its checksum",
    FetchFailure.DISK_FULL: "there is not enough space",
}

_FAILURES = tuple(
    Reason(READY, "False", failure, FORWARDED, meaning) for failure, meaning in _MEANINGS.items()
)

REASONS: Final = ReasonTable(
    Reason(READY, "True", "CheckedOut", "The file is complete and verified",
           "`status.localPath` is its path"),
    Reason(READY, "False", "Fetching", "The file is being fetched",
           "`status.progress` has the details"),
    Reason(READY, "False", "ResourceMissing", FORWARDED,
           "the Resource does not exist; the Checkout waits for it"),
    Reason(READY, "False", "PlacementFailed", FORWARDED,
           "the file is in the cache, but the destination cannot be written"),
    *_FAILURES,
)  # fmt: skip

MONITOR_REASONS: Final = ReasonTable(
    Reason(READY, "True", "Fetched", "The last check succeeded",
           "`status.localPath` has the content, except with the method HEAD"),
    Reason(READY, "False", "NotKept", FORWARDED,
           "the content was fetched, but cannot be written to the cache"),
    *_FAILURES,
)  # fmt: skip
