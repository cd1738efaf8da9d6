# SPDX-License-Identifier: Apache-2.0
"""Files of the page: caching, compressed copies, and nothing outside of the folder."""

from pathlib import Path

import pytest

from rdd.dashboard.assets import Assets
from rdd.dashboard.local_exchange import LocalExchange
from rdd.http.headers import HeaderList, Headers


class Recorded(LocalExchange):
    """An exchange that keeps the headers of its response."""

    __slots__ = ("sent",)

    def start(
        self, status: int, headers: HeaderList, *, length: int | None = None, flush: bool = True
    ) -> None:
        super().start(status, headers)
        self.sent = dict(headers)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "assets"
    (root / "assets").mkdir(parents=True)
    (root / "index.html").write_text('<meta name="rdd-build" content="b7">')
    (root / "assets" / "app-1a.js").write_text("plain")
    (root / "assets" / "app-1a.js.br").write_text("brotli")
    (root / "assets" / "app-1a.js.gz").write_text("gzip")
    (root / "link.html").symlink_to("/etc/passwd")
    return root


async def fetched(assets: Assets, path: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
    exchange = Recorded(path)
    exchange.headers = Headers([(k.replace("_", "-"), v) for k, v in headers.items()])
    assets.send(exchange, path)
    return exchange.status, exchange.sent, await exchange.read()


@pytest.mark.parametrize(
    ("accepted", "body"),
    [("", b"plain"), ("gzip, br", b"brotli"), ("gzip", b"gzip"), ("br;q=0, gzip;q=1", b"gzip")],
)
async def test_compressed_copies(folder: Path, accepted: str, body: bytes) -> None:
    status, headers, found = await fetched(
        Assets(folder), "/assets/app-1a.js", Accept_Encoding=accepted
    )
    assert (status, found) == (200, body)
    assert "immutable" in headers["Cache-Control"]
    assert headers["Content-Type"] == "text/javascript; charset=utf-8"
    assert headers["Vary"] == "Accept-Encoding"


async def test_index_is_revalidated(folder: Path) -> None:
    assets = Assets(folder)
    assert assets.build == "b7"
    _, headers, _ = await fetched(assets, "/index.html")
    assert headers["Cache-Control"] == "no-cache"
    status, _, body = await fetched(assets, "/index.html", If_None_Match=headers["ETag"])
    assert (status, body) == (304, b"")


def test_only_files_of_the_folder_exist(folder: Path, tmp_path: Path) -> None:
    assets = Assets(folder)
    assert assets.exist
    for path in ("/link.html", "/../x", "/assets/../index.html", "/assets", "/assets/app-1a.js.br"):
        assert not assets.has(path), path
    empty = Assets(tmp_path / "none")
    assert not empty.exist
    assert empty.build == ""
