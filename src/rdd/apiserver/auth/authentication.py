# SPDX-License-Identifier: Apache-2.0
"""Authentication: client certificate, bearer token, or anonymous.

The order is that of Kubernetes: a client certificate that names a user wins, then the bearer
token decides (an invalid token is rejected, it does not fall back to anonymous), and a request
without credentials is `system:anonymous`, which RBAC allows little.

The two tokens of the daemon are found by the whole Authorization header in one dictionary
lookup. The lookup compares hashes first, so its duration reveals nothing about a token. Service
account tokens are verified once and cached; when accounts or secrets change, only the objects
behind a cached token are checked again.
"""

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rdd.api.errors import Unauthorized
from rdd.api.fielderrors import aggregate
from rdd.apiserver.auth import identities, websocket_token, x509
from rdd.apiserver.auth.authorizer import Lister
from rdd.apiserver.auth.jwt import TokenError
from rdd.apiserver.auth.tokens import CREDENTIAL_ID, ISSUER, ServiceAccountToken, TokenIssuer
from rdd.apiserver.http.request import ANONYMOUS, Request, User

_INVALID_TOKEN = "invalid bearer token"
_MAX_CACHED = 1024

EXTRA_SPACE_WARNING = (
    "the provided Authorization header contains extra space before the bearer token, and is ignored"
)


@dataclass(frozen=True, slots=True)
class TokenIdentity:
    """The user that a token proves, and the audiences it is valid for."""

    user: User
    audiences: tuple[str, ...]


class _CachedToken:
    """A verified service account token and the revision at which its objects were checked."""

    __slots__ = ("revision", "token")

    def __init__(self, token: ServiceAccountToken) -> None:
        self.token = token
        self.revision = (-1, -1)


class Authenticator:
    """Authenticates requests.

    `tokens` are static bearer tokens. Without an `issuer` (and its `lister`), service account
    tokens are rejected.
    """

    def __init__(
        self,
        tokens: Mapping[str, User],
        *,
        issuer: TokenIssuer | None = None,
        lister: Lister | None = None,
        allow_anonymous: bool = True,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.replace_tokens(tokens)
        self._issuer = issuer
        self._lister = lister
        self._allow_anonymous = allow_anonymous
        self._now = now
        self._cached_tokens: dict[str, _CachedToken] = {}
        self._certificates: dict[bytes, tuple[User | None, float]] = {}
        self.audiences = issuer.audiences if issuer else (ISSUER,)

    def replace_tokens(self, tokens: Mapping[str, User]) -> None:
        """Set the static bearer tokens; others are invalid at once."""
        self._tokens = {token: with_authenticated(user) for token, user in tokens.items()}
        self._headers = {f"Bearer {token}": user for token, user in self._tokens.items()}

    def authenticate(self, request: Request) -> User:
        """Return the user of a request, before impersonation; raise Unauthorized."""
        if request.peer_certificate is not None:
            user = self._of_certificate(request.peer_certificate)
            if user is not None:
                return user
        header = request.headers.get("Authorization", "")
        cached = self._headers.get(header)
        if cached is not None:
            return cached
        token = _bearer_token(header, request.warnings) if header else ""
        if not token and request.headers.get("Upgrade"):
            token = websocket_token.token_of(request.headers)
        if token:
            try:
                return self.authenticate_token(token).user
            except TokenError as e:
                raise Unauthorized from e
        if not self._allow_anonymous:
            raise Unauthorized
        return ANONYMOUS

    def authenticate_token(self, token: str, audiences: Sequence[str] = ()) -> TokenIdentity:
        """Return the identity of a token for the audiences (default: the API server's).

        Raises TokenError with the text that a TokenReview shows.
        """
        wanted = tuple(audiences) or self.audiences
        user = self._tokens.get(token)
        if user is not None:
            # Static tokens are valid for the API server only.
            common = tuple(a for a in wanted if a in self.audiences)
            if not common:
                raise TokenError(_INVALID_TOKEN)
            return TokenIdentity(user, common)
        if self._issuer is None or self._lister is None:
            raise TokenError(_INVALID_TOKEN)
        try:
            return self._of_service_account(token, wanted, self._issuer, self._lister)
        except TokenError as e:
            raise TokenError(aggregate([_INVALID_TOKEN, str(e)])) from e

    def _of_service_account(
        self, token: str, wanted: tuple[str, ...], issuer: TokenIssuer, lister: Lister
    ) -> TokenIdentity:
        now = self._now()
        cached = self._cached_tokens.get(token)
        if cached is None:
            if not issuer.is_own(token):
                raise TokenError(_INVALID_TOKEN)
            cached = _CachedToken(issuer.verify(token))
            if len(self._cached_tokens) >= _MAX_CACHED:
                self._cached_tokens.clear()
            self._cached_tokens[token] = cached
        verified = cached.token
        common = verified.check_audiences(wanted)
        verified.check_time(now)
        revision = lister.revision("serviceaccounts"), lister.revision("secrets")
        if revision != cached.revision:
            verified.check_objects(lister, now)
            cached.revision = revision
        return TokenIdentity(verified.user, common)

    def _of_certificate(self, der: bytes) -> User | None:
        """Return the user of a verified client certificate; None if it names none."""
        cached = self._certificates.get(der)
        if cached is None:
            if len(self._certificates) >= _MAX_CACHED:
                self._certificates.clear()
            cached = self._certificates[der] = certificate_user(der)
        user, not_after = cached
        # TLS checked the dates when the connection was opened, which may be long ago.
        if user is not None and self._now() > not_after:
            raise Unauthorized
        return user


def with_authenticated(user: User) -> User:
    """Return the user with the group of all authenticated users."""
    if identities.AUTHENTICATED in user.groups:
        return user
    return User(user.name, (*user.groups, identities.AUTHENTICATED), uid=user.uid, extra=user.extra)


def certificate_user(der: bytes) -> tuple[User | None, float]:
    """Return the user of a certificate and the time at which the certificate expires.

    The user consists of common name, organisations and UID.
    """
    try:
        certificate = x509.parse_certificate(der)
    except ValueError as e:
        raise Unauthorized from e
    names = certificate.subject_values(x509.COMMON_NAME)
    uids = certificate.subject_values(x509.USER_UID)
    if len(uids) > 1 or uids == [""]:
        raise Unauthorized
    if not names or not names[-1]:
        return None, certificate.not_after
    user = User(
        names[-1],
        tuple(certificate.subject_values(x509.ORGANIZATION)),
        uid=uids[0] if uids else "",
        extra={CREDENTIAL_ID: (f"X509SHA256={hashlib.sha256(der).hexdigest()}",)},
    )
    return with_authenticated(user), certificate.not_after


def _bearer_token(header: str, warnings: list[str]) -> str:
    """Return the token of an Authorization header; other schemes are ignored, as in Kubernetes."""
    parts = header.strip().split(" ", 2)
    if len(parts) < 2 or parts[0].lower() != "bearer":
        return ""
    if not parts[1] and len(parts) == 3:
        warnings.append(EXTRA_SPACE_WARNING)
    return parts[1]
