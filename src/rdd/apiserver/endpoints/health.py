# SPDX-License-Identifier: Apache-2.0
"""/healthz, /livez and /readyz: named checks with a summary or one line for each."""

from collections.abc import Callable, Iterable

from rdd.apiserver.http.request import (
    NO_SNIFF,
    AnyResponse,
    Request,
    Response,
    page_not_found,
)
from rdd.base.metrics import Registry

HealthCheck = Callable[[], str]
"""Returns the reason of a failure, or an empty string."""

_TEXT = "text/plain; charset=utf-8"


class HealthEndpoint:
    """The checks of one endpoint (`readyz` has more of them than `livez`)."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.checks: dict[str, HealthCheck] = {"ping": lambda: ""}
        self.results: dict[tuple[str, bool], int] = {}
        """How often each check failed (True) or not, for the metrics of service levels."""

    def add(self, name: str, check: HealthCheck) -> None:
        """Add a check; it runs with every request and must be quick."""
        self.checks[name] = check

    def _run(self, name: str) -> str:
        reason = self.checks[name]()
        key = (name, bool(reason))
        self.results[key] = self.results.get(key, 0) + 1
        return reason

    async def handle(self, request: Request) -> AnyResponse:
        """Handle /<name> and /<name>/<check>."""
        if request.path != f"/{self.name}":
            return self._single(request.path.removeprefix(f"/{self.name}/"))
        excluded = set(request.query.get("exclude", ()))
        lines: list[str] = []
        failed: list[str] = []
        for name in self.checks:
            if name in excluded:
                excluded.discard(name)
                lines.append(f"[+]{name} excluded: ok")
            elif self._run(name):
                failed.append(name)
                lines.append(f"[-]{name} failed: reason withheld")
            else:
                lines.append(f"[+]{name} ok")
        for name in sorted(excluded):
            lines.append(f'warn: some health checks cannot be excluded: no matches for "{name}"')
        if failed:
            text = "\n".join([*lines, f"{self.name} check failed", ""])
            return Response(500, text.encode(), content_type=_TEXT, headers=[NO_SNIFF])
        if "verbose" not in request.query:
            return Response(200, b"ok", content_type=_TEXT, headers=[NO_SNIFF])
        text = "\n".join([*lines, f"{self.name} check passed", ""])
        return Response(200, text.encode(), content_type=_TEXT, headers=[NO_SNIFF])

    def _single(self, name: str) -> Response:
        if name not in self.checks:
            return page_not_found()
        reason = self._run(name)
        if reason:
            body = f"internal server error: {reason}\n".encode()
            return Response(500, body, content_type=_TEXT, headers=[NO_SNIFF])
        return Response(200, b"ok", content_type=_TEXT)


def service_levels(endpoints: Iterable[HealthEndpoint]) -> str:
    """Return the results of all checks so far as metrics, for /metrics/slis."""
    registry = Registry()
    last = registry.gauge(
        "kubernetes_healthcheck",
        "[STABLE] This metric records the result of a single healthcheck.",
        "name",
        "type",
    )
    total = registry.counter(
        "kubernetes_healthchecks_total",
        "[STABLE] This metric records the results of all healthcheck.",
        "name",
        "status",
        "type",
    )
    for endpoint in endpoints:
        for (name, has_failed), count in endpoint.results.items():
            check = endpoint.checks[name]
            last.read(lambda check=check: float(not check()), name, endpoint.name)  # type: ignore[misc]
            total.add(name, "error" if has_failed else "success", endpoint.name, by=count)
    return registry.render()
