# SPDX-License-Identifier: Apache-2.0
"""Who may read the metrics of a manager: bearer tokens with `get` on the path `/metrics`.

As controller-runtime does it, the API server decides: a TokenReview returns the user of the token,
a SubjectAccessReview whether RBAC grants the path. Answers are remembered for `REMEMBER_S`, because
a scraper repeats its token every few seconds; the keys are digests, so no token stays in memory.
"""

import asyncio
import hashlib
import time
from collections.abc import Callable

from rdd.api import names
from rdd.api.errors import ApiError
from rdd.api.types import Object
from rdd.client import ApiResource, Client, Unreachable

REMEMBER_S = 10.0
MAX_REMEMBERED = 64
MAX_CHECKS = 4
"""Checks at the same time; further ones wait."""
TIMEOUT_S = 5.0

_TOKEN_REVIEWS = ApiResource(
    names.AUTHENTICATION_GROUP, "v1", "tokenreviews", "TokenReview", namespaced=False
)
_ACCESS_REVIEWS = ApiResource(
    names.AUTHORIZATION_GROUP, "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False
)


class MetricsAccess:
    """Checks the Authorization header of requests for metrics."""

    def __init__(self, client: Client, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        self._checks = asyncio.Semaphore(MAX_CHECKS)
        self._remembered: dict[bytes, tuple[float, int]] = {}

    async def status(self, authorization: str) -> int:
        """Return 200 if the header allows to read, otherwise 401, 403 or 503."""
        scheme, _, token = authorization.strip().partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            return 401
        key = hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
        known = self._remembered.get(key)
        if known is not None and self._clock() < known[0]:
            return known[1]
        try:
            async with asyncio.timeout(TIMEOUT_S), self._checks:
                found = await self._ask(token)
        except (ApiError, Unreachable, TimeoutError):
            return 503
        if len(self._remembered) >= MAX_REMEMBERED:
            self._remembered.clear()
        self._remembered[key] = (self._clock() + REMEMBER_S, found)
        return found

    async def _ask(self, token: str) -> int:
        review = await self._review(_TOKEN_REVIEWS, {"token": token})
        if not review.get("authenticated"):
            return 401
        user = review.get("user") or {}
        spec = {
            "user": user.get("username", ""),
            "groups": user.get("groups") or [],
            "uid": user.get("uid", ""),
            "extra": user.get("extra") or {},
            "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
        }
        return 200 if (await self._review(_ACCESS_REVIEWS, spec)).get("allowed") else 403

    async def _review(self, resource: ApiResource, spec: Object) -> Object:
        obj = {"metadata": {}, "spec": spec}
        found = (await self._client.create(resource, obj)).get("status")
        return found if isinstance(found, dict) else {}
