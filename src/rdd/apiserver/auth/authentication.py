# SPDX-License-Identifier: Apache-2.0
"""Who makes a request: client certificate, bearer token, or nobody in particular.

The order is Kubernetes': a client certificate that names a user wins, then the
bearer token decides (wrong tokens are refused, they do not fall back), and a
request without credentials is `system:anonymous`, whom authorisation allows
little.

The two tokens of the daemon are found by the whole Authorization header in one
dictionary look-up; the comparison is of hashes first, so its time says nothing
about a token. Service account tokens are verified once and remembered; when
accounts or secrets change, only the objects behind a remembered token are
looked at again.
"""

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rdd.api.errors import Unauthorized
from rdd.api.fielderrors import aggregate
from rdd.apiserver.auth import x509
from rdd.apiserver.auth.authorizer import Lister
from rdd.apiserver.auth.jwt import TokenError
from rdd.apiserver.auth.tokens import CREDENTIAL_ID, ISSUER, ServiceAccountToken, TokenIssuer
from rdd.apiserver.http.request import ANONYMOUS, Request, User

AUTHENTICATED = "system:authenticated"

_INVALID_TOKEN = "invalid bearer token"
_MAX_REMEMBERED = 1024

EXTRA_SPACE_WARNING = (
    "the provided Authorization header contains extra space before the bearer token, and is ignored"
)


@dataclass(frozen=True, slots=True)
class TokenIdentity:
    """What a token proves: a user, towards some audiences."""

    user: User
    audiences: tuple[str, ...]


class _Remembered:
    """A verified service account token, and the state its objects were last checked against."""

    __slots__ = ("revision", "token")

    def __init__(self, token: ServiceAccountToken) -> None:
        self.token = token
        self.revision = (-1, -1)


class Authenticator:
    """Turns the credentials of a request into a `User`.

    `tokens` are static bearer tokens. Without an `issuer` (and the `lister` that
    goes with it) service account tokens are not known.
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
        self._tokens = {token: with_authenticated(user) for token, user in tokens.items()}
        self._headers = {f"Bearer {token}": user for token, user in self._tokens.items()}
        self._issuer = issuer
        self._lister = lister
        self._allow_anonymous = allow_anonymous
        self._now = now
        self._remembered: dict[str, _Remembered] = {}
        self._certificates: dict[bytes, tuple[User | None, float]] = {}
        self.audiences = issuer.audiences if issuer else (ISSUER,)

    def authenticate(self, request: Request) -> User:
        """The user of a request (impersonation is a later step); raises Unauthorized."""
        if request.peer_certificate is not None:
            user = self._of_certificate(request.peer_certificate)
            if user is not None:
                return user
        header = request.headers.get("Authorization", "")
        known = self._headers.get(header)
        if known is not None:
            return known
        token = _bearer_token(header, request.warnings) if header else ""
        if token:
            try:
                return self.authenticate_token(token).user
            except TokenError as e:
                raise Unauthorized from e
        if not self._allow_anonymous:
            raise Unauthorized
        return ANONYMOUS

    def authenticate_token(self, token: str, audiences: Sequence[str] = ()) -> TokenIdentity:
        """What a token proves towards the audiences (default: the API server's).

        Raises TokenError with the text a TokenReview shows.
        """
        wanted = tuple(audiences) or self.audiences
        user = self._tokens.get(token)
        if user is not None:
            # Static tokens are the API server's own, nobody else's.
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
        known = self._remembered.get(token)
        if known is None:
            if not issuer.is_own(token):
                raise TokenError(_INVALID_TOKEN)
            known = _Remembered(issuer.verify(token))
            if len(self._remembered) >= _MAX_REMEMBERED:
                self._remembered.clear()
            self._remembered[token] = known
        verified = known.token
        common = verified.check_audiences(wanted)
        verified.check_time(now)
        revision = lister.revision("serviceaccounts"), lister.revision("secrets")
        if revision != known.revision:
            verified.check_objects(lister, now)
            known.revision = revision
        return TokenIdentity(verified.user, common)

    def _of_certificate(self, der: bytes) -> User | None:
        """The user a verified client certificate names; None if it names none."""
        known = self._certificates.get(der)
        if known is None:
            if len(self._certificates) >= _MAX_REMEMBERED:
                self._certificates.clear()
            known = self._certificates[der] = certificate_user(der)
        user, not_after = known
        # TLS checked the dates when the connection was opened; it may be open for long.
        if user is not None and self._now() > not_after:
            raise Unauthorized
        return user


def with_authenticated(user: User) -> User:
    """The user with the group every authenticated user is in."""
    if AUTHENTICATED in user.groups:
        return user
    return User(user.name, (*user.groups, AUTHENTICATED), uid=user.uid, extra=user.extra)


def certificate_user(der: bytes) -> tuple[User | None, float]:
    """The user of a certificate (common name, organisations, UID), and until when it is good."""
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
    """The token in an Authorization header; other schemes are ignored, as Kubernetes does."""
    parts = header.strip().split(" ", 2)
    if len(parts) < 2 or parts[0].lower() != "bearer":
        return ""
    if not parts[1] and len(parts) == 3:
        warnings.append(EXTRA_SPACE_WARNING)
    return parts[1]
