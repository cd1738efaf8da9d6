# SPDX-License-Identifier: Apache-2.0
"""Whether a user may read a path that is no resource."""

import orjson

from rdd.api import errors
from rdd.apiserver.http.listener import RequestApi
from rdd.apiserver.http.request import Request, Response, User


async def check_permission(api: RequestApi, user: User, path: str) -> None:
    """Ask the API for the path; a passthrough endpoint is authorised, but not called.

    Raises ApiError.
    """
    answer = await api.handle(Request("GET", path, headers={}, user=user))
    if isinstance(answer, Response) and answer.status in (401, 403):
        raise errors.from_status(orjson.loads(answer.body))
