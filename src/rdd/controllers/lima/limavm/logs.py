# SPDX-License-Identifier: Apache-2.0
"""Logs of virtual machines: console, host agent, engine.

    GET /passthrough/limavm/logs/NAMESPACE/NAME                              which there are
    GET /passthrough/limavm/logs/NAMESPACE/NAME/LOG?tail=1000&follow=false   the text

The files are in the directory of the machine, whose name is unique in all namespaces.
"""

from typing import TYPE_CHECKING

import orjson

from rdd.host.errors import HostError
from rdd.host.log_files import find_log, is_tail, list_logs, read_log
from rdd.vm.instance_dir import InvalidName, LimaHome

if TYPE_CHECKING:
    from rdd.http.exchange import Exchange
    from rdd.http.responses import Response

ENDPOINT = "logs"
_BOOLEANS = {"": False, "false": False, "0": False, "true": True, "1": True}


class LogEndpoint:
    """Serves the logs."""

    def __init__(self, home: LimaHome) -> None:
        self._home = home

    async def handle(self, exchange: "Exchange", rest: str) -> "Response | None":
        """Send the list of logs or one of them."""
        from rdd.http.responses import TEXT, Response

        words = rest.strip("/").split("/")
        if exchange.method not in ("GET", "HEAD"):
            return Response.text("the method must be GET\n", status=405)
        if len(words) not in (2, 3):
            form = "NAMESPACE/NAME or NAMESPACE/NAME/LOG"
            return Response.text(f"the path must be {form}\n", status=400)
        try:
            directory = self._home.directory(words[1])
        except InvalidName as error:
            return Response.text(f"{error}\n", status=400)
        if not directory.exists():
            return Response.text(f'no virtual machine "{words[1]}"\n', status=404)
        if len(words) == 2:
            return Response(200, orjson.dumps({"logs": list_logs(directory.path)}))
        path = find_log(directory.path, words[2])
        if path is None:
            return Response.text(f'no log "{words[2]}"\n', status=404)
        tail = exchange.first("tail")
        follow = _BOOLEANS.get(exchange.first("follow"))
        if follow is None or not is_tail(tail):
            return Response.text("invalid value for follow or tail\n", status=400)
        exchange.start(200, [("Content-Type", TEXT), ("Cache-Control", "no-store")])
        lines = int(tail) if tail.isdigit() else None
        try:
            async for piece in read_log(path, tail=lines, follow=follow):
                exchange.write(piece)
                await exchange.drain()
            exchange.finish()
        except HostError:
            exchange.abort()
        return None
