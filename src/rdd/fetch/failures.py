# SPDX-License-Identifier: Apache-2.0
"""Why a fetch failed, as a type: what the user must do differs for each cause.

`FetchError` has the cause and the `FailureReason` by which commands decide whether to wait.
`SourceUnreachable` is the part of them for which another source may work. A host without a
default route is offline, whatever error the attempt to connect gave: without a network, the
resolver reports a temporary failure, as it does for a name server that is down.
"""

import errno
from enum import StrEnum
from pathlib import Path

from rdd.host.errors import FailureReason, HostError


class FetchFailure(StrEnum):
    """Why a file could not be fetched."""

    OFFLINE = "Offline"  # this host has no network
    NAME_NOT_RESOLVED = "NameNotResolved"
    UNREACHABLE = "Unreachable"  # no connection, or one that was lost
    NOT_TRUSTED = "NotTrusted"  # the certificate of the server, or of the proxy
    PROXY_AUTHENTICATION = "ProxyAuthenticationRequired"
    NOT_FOUND = "NotFound"
    REJECTED = "Rejected"  # another status 4xx
    SERVER_ERROR = "ServerError"  # 5xx, and 429
    CHECKSUM_MISMATCH = "ChecksumMismatch"
    TOO_LARGE = "TooLarge"  # larger than what is read into memory
    SIGNATURE_MISMATCH = "SignatureMismatch"  # also one that cannot be verified
    NO_CHECKSUM = "NoChecksum"  # the publisher's checksum file does not list it
    INVALID_SOURCE = "InvalidSource"
    NOT_ALLOWED = "NotAllowed"  # by the deployment profile
    DISK_FULL = "DiskFull"


_REASONS = {
    FetchFailure.OFFLINE: FailureReason.NO_NETWORK,
    FetchFailure.NAME_NOT_RESOLVED: FailureReason.NO_NETWORK,
    FetchFailure.NOT_TRUSTED: FailureReason.INVALID_SOURCE,
    FetchFailure.PROXY_AUTHENTICATION: FailureReason.NO_NETWORK,
    FetchFailure.NOT_FOUND: FailureReason.INVALID_SOURCE,
    FetchFailure.REJECTED: FailureReason.INVALID_SOURCE,
    FetchFailure.CHECKSUM_MISMATCH: FailureReason.INVALID_SOURCE,
    FetchFailure.TOO_LARGE: FailureReason.INVALID_SOURCE,
    FetchFailure.SIGNATURE_MISMATCH: FailureReason.INVALID_SOURCE,
    FetchFailure.NO_CHECKSUM: FailureReason.INVALID_SOURCE,
    FetchFailure.INVALID_SOURCE: FailureReason.INVALID_SOURCE,
    FetchFailure.NOT_ALLOWED: FailureReason.NOT_ALLOWED,
    FetchFailure.DISK_FULL: FailureReason.DISK_FULL,
}


class FetchError(HostError):
    """A file could not be fetched."""

    def __init__(
        self,
        message: str,
        failure: FetchFailure,
        *,
        reason: FailureReason | None = None,
        status: int = 0,
    ) -> None:
        super().__init__(message, reason=reason or _REASONS.get(failure))
        self.failure = failure
        self.status = status
        """The HTTP status of the response; 0 without one."""


class SourceUnreachable(FetchError):
    """The server is unreachable or the connection was lost; another source may work."""


def from_status(url: str, status: int, phrase: str) -> FetchError:
    """Return the error of a response that is not the file."""
    text = f'failed to download "{url}": the server answered {status} {phrase}'
    if status >= 500 or status == 429:
        return SourceUnreachable(text, FetchFailure.SERVER_ERROR, status=status)
    if status == 407:
        return _proxy_authentication(url)
    is_missing = status in (404, 410)
    failure = FetchFailure.NOT_FOUND if is_missing else FetchFailure.REJECTED
    return FetchError(text, failure, status=status)


def from_connection(url: str, error: Exception) -> FetchError:
    """Return the error of a connection that failed or was lost."""
    import aiohttp

    start = f'failed to download "{url}"'
    if isinstance(error, aiohttp.ClientHttpProxyError) and error.status == 407:
        return _proxy_authentication(url)
    if isinstance(error, aiohttp.ClientConnectorCertificateError | aiohttp.ClientSSLError):
        return SourceUnreachable(
            f"{start}: the certificate of the server is not trusted: {_text(error)}; "
            "add its authority to certificates.authorities",
            FetchFailure.NOT_TRUSTED,
        )
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return no_space(url, error)
    never_made = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)
    if isinstance(error, never_made) and is_offline():
        return SourceUnreachable(f"{start}: this host is offline", FetchFailure.OFFLINE)
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return SourceUnreachable(
            f'{start}: the name "{error.host}" cannot be resolved', FetchFailure.NAME_NOT_RESOLVED
        )
    if isinstance(error, aiohttp.InvalidURL):
        return FetchError(f"{start}: not a URL", FetchFailure.INVALID_SOURCE)
    return SourceUnreachable(
        f"{start}: {_text(error)}",
        FetchFailure.UNREACHABLE,
        # A connection that was lost is retried; one that was never made is not.
        reason=FailureReason.NO_NETWORK if isinstance(error, never_made) else None,
    )


def no_space(url: str, error: OSError) -> FetchError:
    """Return the error of a full disk."""
    return FetchError(
        f'failed to download "{url}": {error.strerror}; free some space; the next attempt '
        "resumes the download",
        FetchFailure.DISK_FULL,
    )


def is_offline() -> bool:
    """Return whether this host has no default route."""
    return not (_has_default_ipv4() or _has_default_ipv6())


def _has_default_ipv4() -> bool:
    try:
        lines = Path("/proc/net/route").read_text().splitlines()[1:]
    except OSError:
        return True  # unknown on this system
    return any(line.split()[1:2] == ["00000000"] for line in lines)


def _has_default_ipv6() -> bool:
    try:
        lines = Path("/proc/net/ipv6_route").read_text().splitlines()
    except OSError:
        return False
    routes = (line.split() for line in lines)
    return any(route[0] == "0" * 32 and route[1] == "00" and route[9] != "lo" for route in routes)


def _proxy_authentication(url: str) -> FetchError:
    return FetchError(
        f'failed to download "{url}": the proxy requires a user name and a password (407); '
        "set them in the URL of the proxy",
        FetchFailure.PROXY_AUTHENTICATION,
        status=407,
    )


def _text(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "the server does not respond"
    return " ".join(str(error).split()) or type(error).__name__
