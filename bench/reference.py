# SPDX-License-Identifier: Apache-2.0
"""The reference figures and the targets of rdd.

The figures are those of kube-apiserver 1.36.4 + etcd 3.6.8 on the same kind of machine: 2
cores, the client on the same cores, fsync on, the median of runs with the same shapes and
numbers of objects. CPU time is the sum of both processes. `python -m bench.apiserver --url …`
measures them again.
"""

from dataclasses import dataclass

SOURCE = "kube-apiserver 1.36.4 + etcd 3.6.8 on the same kind of machine"

CPU_SHARE = 0.5
"""Limit of the server's CPU time per operation, as a share of the reference's."""


@dataclass(frozen=True, slots=True)
class Row:
    """Figures of the reference for one kind of request, and the required factor."""

    p50_ms: float
    p99_ms: float
    per_second: float | None = None
    server_us: float | None = None
    factor: float | None = None
    """Minimum of operations per second, as a multiple of the reference's."""
    max_us: float | None = None
    """Limit of the server's CPU time per operation."""
    max_p50_ms: float | None = None


ROWS: dict[str, Row] = {
    "create, 1 client": Row(1.45, 4.6, 611, 1630, 2.2),
    "create, 8 clients": Row(5.4, 16, 1342, 1130, 2.5),
    "create, 32 clients": Row(15, 46, 1892, 775, 2.5),
    "GET, 1 client": Row(0.86, 1.8, 1104, 942, 2.5),
    "GET, 8 clients": Row(2.5, 9.2, 2867, 477, 2.5, max_us=50),
    "GET, 32 clients": Row(7.8, 24, 3676, 390, 2.5),
    "GET rv=0, 8 clients": Row(1.1, 7.7, 4979, 226, 1.5),
    "LIST 1,000, 1 client": Row(10.6, 33, 83, 11_900, 3.0),
    "LIST 1,000, 8 clients": Row(52, 126, 144, 9_800, 6.0),
    "LIST 10,000": Row(85, 138, 10.8, 100_000, 1.0),
    "LIST 10,000 gzip": Row(150, 203, 6.6, 159_000, 1.0),
    "LIST 10,000 paged": Row(179, 268, 5.4, 146_000, 3.0),
    "merge PATCH, 8 clients": Row(6.1, 18, 1184, 1215, 2.5),
    "PUT, 8 clients": Row(5.8, 17, 1270, 1108, 2.5),
    "DELETE, 8 clients": Row(4.9, 16, 1426, 1060, 1.5),
    "CR create, 8 clients": Row(8.2, 29, 822, 2045, 1.5),
    "CR GET, 8 clients": Row(3.6, 13, 1974, 725, 1.5),
    "apply create, 8 clients": Row(10.7, 32, 636, 2550, 3.5),
    "apply update, 8 clients": Row(11, 40, 599, 2914, 3.5),
    "watch latency": Row(2.3, 4.7, max_p50_ms=1),
    "watch fan-out": Row(0, 0, 45_000, None, 2.0, max_us=5),
}


@dataclass(frozen=True, slots=True)
class Bound:
    """A figure with an absolute limit, if any."""

    name: str
    unit: str
    limit: float | None
    reference: float | None
    source: tuple[str, ...]
    """Path of the figure: the stem of a results file, then the keys in it."""


BOUNDS = (
    Bound("CRD POST until listable", "ms", 20, 37, ("apiserver", "rows", "CRD ready", "p50_ms")),
    Bound("start to /readyz, empty", "s", 0.3, 2.2, ("start", "fresh", "ready_s")),
    Bound("start to /readyz, 12,400 objects", "s", 1.0, 2.0, ("start", "objects", "ready_s")),
    Bound("200 CRDs, added to the start", "s", 0.3, None, ("start", "crds", "added_s")),
    Bound("200 CRDs, memory", "MiB", 40, None, ("start", "crds", "added_mib")),
    Bound("200 CRDs with an object each, memory", "MiB", 40, None, ("start", "crds", "used_mib")),
    Bound("RSS idle", "MiB", 80, 303, ("apiserver", "memory", "idle")),
    Bound("RSS, 10,000 ConfigMaps", "MiB", 95, 446, ("apiserver", "memory", "10,000 ConfigMaps")),
    Bound("RSS after all rows", "MiB", None, 841, ("apiserver", "memory", "end")),
    Bound("RSS, 12,400 objects, after a start", "MiB", None, None, ("start", "objects", "rss_mib")),
    Bound("RSS growth, 100,000 updates", "MiB", 5, None, ("start", "growth", "growth_mib")),
    Bound("wake-ups when idle", "/s", None, None, ("start", "idle", "wakeups_per_s")),
)


def _desktop(name: str, unit: str, limit: float | None, key: str) -> Bound:
    return Bound(name, unit, limit, None, ("desktop", key))


DESKTOP = (
    _desktop("`rdd start` on a fresh home, to Settled", "s", 4, "start_s"),
    _desktop("`rdd start` after `rdd stop`, to Settled", "s", 2.5, "second_start_s"),
    _desktop("`rdd stop` with a container that honours SIGTERM", "s", 3, "stop_s"),
    _desktop("LimaVM with an engine: `spec.running` to `Running=True`", "s", 2, "machine_start_s"),
    _desktop("daemon killed, from the next one's readiness to adoption", "s", 1, "adoption_s"),
    _desktop("the same from the call of `rdd service start`", "s", None, "crash_to_adopted_s"),
    _desktop("GET of the App during stop and start, p99", "ms", 20, "read_p99_ms"),
    _desktop("`rdd service start` on a fresh home, all controllers", "s", 0.6, "svc_start_s"),
    _desktop("RSS of the daemon, all controllers", "MiB", 65, "rss_mib"),
    _desktop("RSS of the daemon, App running", "MiB", 90, "app_rss_mib"),
    _desktop("wake-ups of the daemon at rest, all controllers", "/s", 0, "wakeups_per_s"),
    _desktop("wake-ups of the daemon at rest, App running", "/s", 0.2, "app_wakeups_per_s"),
    _desktop("host agent: start to its socket", "s", 0.35, "agent_socket_s"),
    _desktop("RSS of the host agent", "MiB", 30, "agent_rss_mib"),
)
