# SPDX-License-Identifier: Apache-2.0
"""URLMonitor: a URL whose content is fetched at an interval."""

from collections.abc import Sequence
from typing import Final, Literal

from rdd.api import names
from rdd.kinds import constraints
from rdd.kinds.conditions import BY_TYPE, Condition
from rdd.kinds.kind import Column, Kind
from rdd.kinds.struct import UNSET, Struct, field

MAX_CONTENT_BYTES: Final = 4 << 20
"""A longer answer is not kept: monitors are for lists, Resources for files."""

_INTERVAL = {
    "pattern": r"^([0-9]{1,6}(\.[0-9]{1,3})?(h|m|s))+$",
    "maxLength": 32,
    **constraints.rule(
        "duration(self) >= duration('1m') && duration(self) <= duration('8760h')",
        "must be between 1m and 8760h (a year)",
    ),
}


class URLMonitorSpec(Struct):
    """What is fetched and how often."""

    url: str = field(
        "The URL.", schema={"pattern": r"^https?://[^\s/?#]+([/?#]\S*)?$", "maxLength": 2048}
    )
    method: Literal["GET", "HEAD", "POST"] = field(
        "The method of the requests. With HEAD only ETag and Last-Modified show a change.",
        default="GET",
    )
    body: str = field("The body of a POST request.", default=UNSET, schema={"maxLength": 65536})
    interval: str = field("Time between two checks, such as 24h.", default="24h", schema=_INTERVAL)
    next_check: str = field(
        "Time of an additional check, such as the current time. It applies once.",
        default=UNSET,
        schema=constraints.DATE_TIME,
    )
    suspended: bool = field(
        "Whether the checks are suspended; the content that was found is kept.", default=UNSET
    )


class URLMonitorStatus(Struct):
    """The result of the last check, and the content."""

    last_check: str = field("Time of the last check.", default=UNSET, schema=constraints.DATE_TIME)
    last_status: int = field(
        "HTTP status of the last check; absent if there was no response.", default=UNSET
    )
    last_change: str = field(
        "Time of the check that found the current content.",
        default=UNSET,
        schema=constraints.DATE_TIME,
    )
    next_check: str = field(
        "Time of the next check; absent while the checks are suspended.",
        default=UNSET,
        schema=constraints.DATE_TIME,
    )
    url: str = field("The URL that the content is from.", default=UNSET)
    etag: str = field("ETag of the content.", default=UNSET)
    last_modified: str = field("Last-Modified of the content.", default=UNSET)
    digest: str = field("Digest of the content.", default=UNSET)
    size: int = field("Size of the content in bytes.", default=UNSET, schema=constraints.INT64)
    local_path: str = field("Path of the content: a file of the cache.", default=UNSET)
    conditions: Sequence[Condition] = field(
        "Whether the last check succeeded: Ready, with the cause of a failure.",
        default=UNSET,
        schema=BY_TYPE,
    )


class URLMonitor(
    Kind,
    group=names.RDD_GROUP,
    namespaced=False,
    columns=(
        Column("URL", "string", ".spec.url"),
        Column("Ready", "string", '.status.conditions[?(@.type=="Ready")].status'),
        Column("Last Check", "date", ".status.lastCheck"),
        Column("Last Change", "date", ".status.lastChange"),
    ),
    annotations={names.CONTROLLER: "urlmonitor"},
):
    """A URL whose content is fetched at an interval and kept."""

    spec: URLMonitorSpec = field(
        "What is fetched and how often.",
        schema=constraints.rule(
            "!has(self.body) || self.method == 'POST'", "only the method POST has a body"
        ),
    )
    status: URLMonitorStatus = field("The result of the last check.", default=UNSET)
