# SPDX-License-Identifier: Apache-2.0
"""Service account tokens: issued by TokenRequest, verified by the API server and by other services.

A token names its service account (and, if bound, a Secret) by name and UID. It is valid as long as
those objects exist, so deleting the account invalidates its tokens at once. Other services verify
tokens with the OpenID Connect discovery document and the key set.
"""

import time
import uuid
from collections.abc import Awaitable, Callable, Sequence

import orjson

from rdd.api import names, timestamps
from rdd.api.errors import BadRequest, Conflict, Invalid, NotFound
from rdd.api.fielderrors import FieldError, invalid
from rdd.api.types import Object
from rdd.apiserver.auth import identities
from rdd.apiserver.auth.authorizer import Lister
from rdd.apiserver.auth.jwt import SigningKey, TokenError, unverified_claims
from rdd.apiserver.auth.policy_rules import quoted_list
from rdd.apiserver.http.request import Response, User
from rdd.base import gotext

ISSUER = "https://rdd.default.svc"
CREDENTIAL_ID = "authentication.kubernetes.io/credential-id"

_DEFAULT_EXPIRATION_S = 3600
_MIN_EXPIRATION_S = 600
_MAX_EXPIRATION_S = 1 << 32
_LEEWAY_S = 60  # clock skew, as Kubernetes tolerates


class TokenIssuer:
    """Issues and verifies the tokens of one signing key.

    `audiences` are those of the API server itself (default: the issuer); a
    positive `max_expiration_s` shortens longer requests, with a warning.
    """

    def __init__(
        self,
        key_pem: bytes,
        issuer: str = ISSUER,
        *,
        audiences: Sequence[str] = (),
        max_expiration_s: int = 0,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.issuer = issuer
        self.audiences = tuple(audiences) or (issuer,)
        self._key = SigningKey(key_pem)
        self._max_expiration_s = max_expiration_s
        self._now = now

    async def token_request(
        self,
        obj: Object,
        *,
        namespace: str,
        name: str,
        lister: Lister,
        warnings: list[str],
        validate: Callable[[Object], Awaitable[None]] | None = None,
    ) -> Object:
        """Handle a TokenRequest for a service account; return it with a token in its status.

        `validate` runs validating admission on the completed request. Texts for Warning headers
        are appended to `warnings`.
        """
        metadata = dict(obj.get("metadata") or {})
        spec = dict(obj.get("spec") or {})
        self._check_names(metadata, namespace, name)
        account = lister.get("serviceaccounts", namespace, name)
        if account is None:
            raise NotFound.of("serviceaccounts", "", name)
        uid = account["metadata"]["uid"]
        if metadata.get("uid") and metadata["uid"] != uid:
            why = (
                f"the UID in the token request ({metadata['uid']}) does not match "
                f"the UID of the service account ({uid})"
            )
            raise Conflict.of("TokenRequest", names.AUTHENTICATION_GROUP, name, why)
        now = self._now()
        metadata |= {
            "name": name,
            "namespace": namespace,
            "uid": uid,
            "creationTimestamp": timestamps.text(int(now)),
        }
        spec["audiences"] = spec.get("audiences") or list(self.audiences)
        if spec.get("expirationSeconds") is None:
            spec["expirationSeconds"] = _DEFAULT_EXPIRATION_S
        spec.setdefault("boundObjectRef", None)
        request = {
            "apiVersion": f"{names.AUTHENTICATION_GROUP}/v1",
            "kind": "TokenRequest",
            "metadata": metadata,
            "spec": spec,
            "status": {"token": "", "expirationTimestamp": None},
        }
        _check_expiration(spec["expirationSeconds"])
        if validate is not None:
            await validate(request)
        secret = _bound_secret(spec["boundObjectRef"], namespace, lister)
        expiration_s = spec["expirationSeconds"]
        if 0 < self._max_expiration_s < expiration_s:
            warnings.append(
                f"requested expiration of {expiration_s} seconds shortened to "
                f"{self._max_expiration_s} seconds"
            )
            spec["expirationSeconds"] = expiration_s = self._max_expiration_s
        request["status"] = {
            "token": self._issue(account, secret, spec["audiences"], now, expiration_s),
            "expirationTimestamp": timestamps.text(int(now) + expiration_s),
        }
        return request

    @staticmethod
    def _check_names(metadata: Object, namespace: str, name: str) -> None:
        for field, wanted in (("name", name), ("namespace", namespace)):
            if metadata.get(field) and metadata[field] != wanted:
                detail = f"must match the service account {field} if specified"
                error = invalid(f"metadata.{field}", metadata[field], detail)
                raise Invalid.of("TokenRequest", names.AUTHENTICATION_GROUP, name, [error])

    def _issue(
        self,
        account: Object,
        secret: Object | None,
        audiences: Sequence[str],
        now: float,
        expiration_s: int,
    ) -> str:
        metadata, at = account["metadata"], int(now)
        bound: Object = {
            "namespace": metadata["namespace"],
            "serviceaccount": {"name": metadata["name"], "uid": metadata["uid"]},
        }
        if secret is not None:
            bound["secret"] = {k: secret["metadata"][k] for k in ("name", "uid")}
        return self._key.sign(
            {
                "aud": list(audiences),
                "exp": at + expiration_s,
                "iat": at,
                "iss": self.issuer,
                "jti": str(uuid.uuid4()),
                "kubernetes.io": bound,
                "nbf": at,
                "sub": identities.account_username(metadata["namespace"], metadata["name"]),
            }
        )

    def is_own(self, token: str) -> bool:
        """Return whether a token claims (unverified) to be from this issuer."""
        claims = unverified_claims(token)
        return claims is not None and claims.get("iss") == self.issuer

    def verify(self, token: str) -> "ServiceAccountToken":
        """Return the verified token; raise TokenError. Time and bound objects are not checked."""
        claims = self._key.verify(token)
        if claims.get("iss") != self.issuer:
            shown = gotext.quote(str(claims.get("iss", "")))
            raise TokenError(f"token issuer {shown} is invalid")
        try:
            return ServiceAccountToken(claims, self.audiences)
        except (KeyError, TypeError, ValueError) as e:
            raise TokenError(
                "service account token claims could not be validated due to unexpected "
                "private claim"
            ) from e

    def discovery(self, jwks_uri: str) -> Response:
        """Return `/.well-known/openid-configuration`."""
        document = {
            "issuer": self.issuer,
            "jwks_uri": jwks_uri,
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"],
        }
        return _published(document, "application/json")

    def key_set(self) -> Response:
        """Return `/openid/v1/jwks`."""
        return _published(self._key.key_set(), "application/jwk-set+json")


def _published(document: Object, content_type: str) -> Response:
    return Response(
        200,
        orjson.dumps(document),
        content_type=content_type,
        headers=[("Cache-Control", "public, max-age=3600")],
    )


class ServiceAccountToken:
    """A token with a valid signature."""

    __slots__ = ("_account", "_namespace", "_not_before", "_secret", "audiences", "expires", "user")

    def __init__(self, claims: Object, api_audiences: tuple[str, ...]) -> None:
        audience = claims.get("aud") or ()
        self.audiences = (audience,) if isinstance(audience, str) else tuple(audience)
        if not self.audiences:
            self.audiences = api_audiences
        self.expires = float(claims["exp"]) + _LEEWAY_S
        self._not_before = float(claims.get("nbf", 0)) - _LEEWAY_S
        bound = claims["kubernetes.io"]
        self._namespace = str(bound["namespace"])
        self._account = _reference(bound["serviceaccount"])
        self._secret = _reference(bound["secret"]) if bound.get("secret") else None
        self.user = service_account_user(
            self._namespace, *self._account, credential_id=f"JTI={claims['jti']}"
        )

    def check_audiences(self, wanted: Sequence[str]) -> tuple[str, ...]:
        """Return the audiences that token and server share; raise TokenError if there are none."""
        common = tuple(a for a in self.audiences if a in wanted)
        if not common:
            raise TokenError(
                f"token audiences {quoted_list(self.audiences)} is invalid "
                f"for the target audiences {quoted_list(wanted)}"
            )
        return common

    def check_time(self, now: float) -> None:
        """Raise TokenError unless the token is valid at this time."""
        if now > self.expires:
            raise TokenError("service account token has expired")
        if now < self._not_before:
            raise TokenError("service account token is not valid yet")

    def check_objects(self, lister: Lister, now: float) -> None:
        """Raise TokenError unless the account and the bound Secret still exist unchanged."""
        name, uid = self._account
        account = lister.get("serviceaccounts", self._namespace, name)
        if account is None:
            raise TokenError(f"serviceaccounts {gotext.quote(name)} not found")
        if _is_deleted(account, now):
            raise TokenError(f"service account {self._namespace}/{name} has been deleted")
        if account["metadata"]["uid"] != uid:
            current = account["metadata"]["uid"]
            raise TokenError(f"service account UID ({current}) does not match claim ({uid})")
        if self._secret is None:
            return
        name, uid = self._secret
        secret = lister.get("secrets", self._namespace, name)
        if secret is None or _is_deleted(secret, now):
            raise TokenError("service account token has been invalidated")
        if secret["metadata"]["uid"] != uid:
            raise TokenError(
                f"secret UID ({secret['metadata']['uid']}) does not match "
                f"service account secret ref claim ({uid})"
            )


def _reference(claim: Object) -> tuple[str, str]:
    return str(claim["name"]), str(claim["uid"])


def _is_deleted(obj: Object, now: float) -> bool:
    deleted = obj["metadata"].get("deletionTimestamp")
    return bool(deleted) and timestamps.parse(deleted)[0] < now - _LEEWAY_S


def service_account_user(
    namespace: str, name: str, uid: str = "", *, credential_id: str = ""
) -> User:
    """Return the user of a service account."""
    return User(
        identities.account_username(namespace, name),
        (*identities.account_groups(namespace), identities.AUTHENTICATED),
        uid=uid,
        extra={CREDENTIAL_ID: (credential_id,)} if credential_id else None,
    )


def _check_expiration(seconds: int) -> None:
    errors: list[FieldError] = []
    field = "spec.expirationSeconds"
    if seconds < _MIN_EXPIRATION_S:
        errors.append(invalid(field, seconds, "may not specify a duration less than 10 minutes"))
    if seconds > _MAX_EXPIRATION_S:
        detail = "may not specify a duration larger than 2^32 seconds"
        errors.append(invalid(field, seconds, detail))
    if errors:
        raise Invalid.of("TokenRequest", names.AUTHENTICATION_GROUP, "", errors)


def _bound_secret(reference: Object | None, namespace: str, lister: Lister) -> Object | None:
    """Return the Secret to which a token is bound. Pods and Nodes never exist here."""
    if reference is None:
        return None
    name, kind = str(reference.get("name") or ""), str(reference.get("kind") or "")
    group, _, version = str(reference.get("apiVersion") or "").rpartition("/")
    if group or kind not in ("Pod", "Node", "Secret"):
        raise BadRequest(f"cannot bind token to object of type {group}/{version}, Kind={kind}")
    secret = lister.get("secrets", namespace, name) if kind == "Secret" else None
    if secret is None:
        raise NotFound.of(f"{kind.lower()}s", "", name)
    if reference.get("uid") and reference["uid"] != secret["metadata"]["uid"]:
        why = (
            f"the UID in the bound object reference ({reference['uid']}) does not match the UID "
            "in record. The object might have been deleted and then recreated"
        )
        raise Conflict.of(kind, group, name, why)
    return secret
