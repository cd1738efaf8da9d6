# SPDX-License-Identifier: Apache-2.0
"""The dashboard as a part of the control plane.

Links are made by the API (`POST /service/dashboard-login`), so that only an administrator's
token opens a session. What the dashboard needs is imported with its first use.
"""

from typing import TYPE_CHECKING

from rdd.api import names
from rdd.api.errors import BadRequest, MethodNotAllowed, ServiceUnavailable
from rdd.apiserver.auth import identities
from rdd.apiserver.http import responses
from rdd.apiserver.http.listener import RequestApi
from rdd.apiserver.http.request import AnyResponse, Request, User
from rdd.apiserver.routes import Routes
from rdd.dashboard.listener import DashboardListener, host_name
from rdd.instance import Instance

if TYPE_CHECKING:
    from rdd.dashboard.host_stats import HostStats
    from rdd.dashboard.sessions import Sessions
    from rdd.dashboard.site import Site

VIEWER = User("rdd:viewer", (identities.VIEWERS, identities.AUTHENTICATED))
"""The user of a viewer's session; users of kubectl get the same role by its group."""


class Dashboard:
    """The listener, and the paths of the API that belong to it."""

    def __init__(
        self, instance: Instance, api: RequestApi, routes: Routes, *, admin: User, version: str
    ) -> None:
        self._instance = instance
        self._api = api
        self._users = {"admin": admin, "viewer": VIEWER}
        self._version = version
        self._listener = DashboardListener(instance, self._make_site)
        self._sessions: Sessions | None = None
        self._host_stats: HostStats | None = None
        routes.paths[names.DASHBOARD_LOGIN_PATH] = self._create_link
        routes.paths[names.HOST_STATS_PATH] = self._show_host

    async def start(self) -> None:
        """Listen."""
        await self._listener.start()

    async def stop(self) -> None:
        """Stop listening and disconnect all pages."""
        await self._listener.stop()

    async def end_sessions(self) -> None:
        """End all sessions: the tokens were replaced."""
        await self._get_sessions().end_all()

    def _get_sessions(self) -> "Sessions":
        if self._sessions is None:
            from rdd.dashboard.sessions import Sessions

            self._sessions = Sessions(self._instance.dashboard_file)
        return self._sessions

    def _get_host_stats(self) -> "HostStats":
        if self._host_stats is None:
            from rdd.dashboard.host_stats import HostStats

            self._host_stats = HostStats(self._instance.dir)
        return self._host_stats

    def _make_site(self, port: int) -> "Site":
        from rdd.dashboard.site import Site

        return Site(
            self._api,
            self._get_sessions(),
            hosts=(f"{host_name(self._instance)}:{port}", f"127.0.0.1:{port}"),
            users=self._users,
            instance=self._instance.suffix,
            version=self._version,
            host_stats=self._get_host_stats(),
        )

    async def _create_link(self, request: Request) -> AnyResponse:
        if request.method != "POST":
            raise MethodNotAllowed()
        role = request.first("role") or "admin"
        if role not in self._users:
            raise BadRequest("role: admin or viewer is required")
        if not self._listener.port:
            raise ServiceUnavailable("the dashboard has no port; see the log of the daemon")
        code = self._get_sessions().create_link(role)
        url = self._listener.url
        plain = f"http://127.0.0.1:{self._listener.port}/"
        value = {"url": url, "loginUrl": f"{url}login?code={code}"}
        value |= {"loopbackUrl": plain, "loopbackLoginUrl": f"{plain}login?code={code}"}
        return responses.value(request, value)

    async def _show_host(self, request: Request) -> AnyResponse:
        if request.method != "GET":
            raise MethodNotAllowed()
        return responses.value(request, self._get_host_stats().sample())
