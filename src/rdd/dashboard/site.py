# SPDX-License-Identifier: Apache-2.0
"""Which path is served by what, after the checks that every request has to pass.

    /login, /session…, /ticket, /logout      handshake
    /k8s/…                                   the API, with the identity of the session
    /ws                                      watches and live figures
    everything else                          files of the page

Requests that last (watches, logs, terminals) end with their session.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from rdd.api import errors
from rdd.apiserver.http.listener import HttpServer, RequestApi
from rdd.apiserver.http.request import User
from rdd.dashboard import pages, requests
from rdd.dashboard.assets import INDEX, Assets
from rdd.dashboard.container_stats import ContainerStats
from rdd.dashboard.handshake import Handshake, Identification
from rdd.dashboard.host_stats import HostStats
from rdd.dashboard.session_file import Session
from rdd.dashboard.sessions import Sessions
from rdd.dashboard.socket import DashboardSocket
from rdd.http import websocket
from rdd.http.exchange import Exchange
from rdd.http.websocket import HandshakeError, WebSocket

API_PREFIX = "/k8s"
_HIDDEN = {"cookie", "authorization", requests.CSRF_HEADER.lower(), "origin", "referer"}
_HIDDEN_PREFIXES = ("impersonate-", "sec-fetch-")
_MAX_MESSAGE = 64 * 1024
_END_S = 2.0


class Site:
    """Answers all requests of the dashboard's port."""

    def __init__(
        self,
        api: RequestApi,
        sessions: Sessions,
        *,
        hosts: tuple[str, ...],
        users: dict[str, User],
        instance: str,
        version: str,
        host_stats: HostStats,
    ) -> None:
        self._api = api
        self._http = HttpServer(api)
        self._hosts = frozenset(hosts)
        self._headers = {host: requests.common_headers(host) for host in hosts}
        self._main_host = hosts[0]
        self._users = users
        self._assets = Assets()
        names = {role: user.name for role, user in users.items()}
        self._handshake = Handshake(
            sessions, Identification(instance, version, names), lambda: self._assets.build
        )
        self._container_stats = ContainerStats(api)
        self._host_stats = host_stats
        self._lasting: dict[str, set[asyncio.Task[object]]] = {}
        sessions.on_end = self._end_session

    async def close(self) -> None:
        """End all requests that last; their clients reconnect."""
        tasks = {task for group in self._lasting.values() for task in group}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_END_S)
        await self._http.close(timeout_s=0)

    async def handle(self, exchange: Exchange) -> None:
        """Answer a request."""
        host = exchange.headers.get("Host").lower()
        exchange.common_headers = self._headers.get(host) or self._headers[self._main_host]
        if host not in self._hosts:
            pages.message(
                421,
                "This is not the address of the dashboard",
                f"Its address is `http://{self._main_host}/`. Run `rdd dashboard` to open it.",
            ).send(exchange)
            return
        try:
            await self._route(exchange)
        except errors.ApiError as error:
            if exchange.has_started:
                exchange.abort()
            elif requests.is_navigation(exchange):
                pages.message(error.code, "The request was refused", error.message).send(exchange)
            else:
                requests.send_json(exchange, error.to_status(), status=error.code)

    async def _route(self, exchange: Exchange) -> None:
        path = exchange.path
        is_api = path.startswith(f"{API_PREFIX}/")
        requests.check_origin(exchange, is_page=not is_api and path != "/ws")
        if is_api:
            await self._serve_api(exchange)
            return
        if path == "/ws":
            await self._serve_socket(exchange)
            return
        endpoint = self._handshake.endpoints.get((exchange.method, path))
        if endpoint is not None:
            await endpoint(exchange)
        elif path in self._handshake.paths or exchange.method not in ("GET", "HEAD"):
            raise errors.MethodNotAllowed()
        elif path == "/login":
            await self._handshake.login(exchange)
        else:
            self._send_file(exchange, path)

    def _send_file(self, exchange: Exchange, path: str) -> None:
        if not self._assets.exist:
            self._assets = Assets()  # they may be built while the daemon runs
        page = pages.file(path)
        if page is not None:
            page.send(exchange)
        elif self._assets.has(path):
            self._assets.send(exchange, path)
        elif path.startswith("/assets/") or "." in path.rpartition("/")[2]:
            pages.message(
                404, "There is no such file", "The page may be of another version: reload it."
            ).send(exchange)
        elif self._assets.exist:
            self._assets.send(exchange, INDEX)
        else:
            pages.not_built().send(exchange)

    async def _serve_api(self, exchange: Exchange) -> None:
        if exchange.headers.get(requests.CSRF_HEADER):
            session, target = self._handshake.session_of(exchange), exchange.target
        elif exchange.method != "GET" or "ticket=" not in exchange.target:
            # One status for both: the page proves its session again.
            session, target = self._handshake.session_of(exchange), ""
        else:
            session, target = self._handshake.session_of_ticket(exchange)
        headers = exchange.headers.without(_HIDDEN, prefixes=_HIDDEN_PREFIXES)
        exchange.redirect(target.removeprefix(API_PREFIX), headers)
        with self._while_session(session):
            await self._http.serve(exchange, user=self._users[session.role])

    async def _serve_socket(self, exchange: Exchange) -> None:
        if not websocket.is_requested(exchange):
            raise errors.BadRequest("a WebSocket is required")
        session, _ = self._handshake.session_of_ticket(exchange)
        try:
            socket = WebSocket.accept(exchange, max_message=_MAX_MESSAGE)
        except HandshakeError as error:
            error.response.send(exchange)
            return
        connection = DashboardSocket(
            socket,
            lambda: exchange.buffered_bytes,
            self._api,
            self._users[session.role],
            self._container_stats,
            self._host_stats,
        )
        with self._while_session(session):
            try:
                await connection.run()
            except asyncio.CancelledError:
                socket.go_away()
                raise

    @contextmanager
    def _while_session(self, session: Session) -> Iterator[None]:
        """Have this task cancelled when the session ends."""
        task = asyncio.current_task()
        assert task is not None
        group = self._lasting.setdefault(session.id, set())
        group.add(task)
        try:
            yield
        finally:
            group.discard(task)
            if not group:
                self._lasting.pop(session.id, None)

    def _end_session(self, id_: str) -> None:
        current = asyncio.current_task()
        for task in self._lasting.get(id_, ()):
            if task is not current:
                task.cancel()
