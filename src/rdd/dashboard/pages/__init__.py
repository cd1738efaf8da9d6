# SPDX-License-Identifier: Apache-2.0
"""Small pages that need no build: the login, errors, and how to build the dashboard."""

import html
from pathlib import Path

from rdd.http.headers import HeaderList
from rdd.http.responses import Response

_HTML = "text/html; charset=utf-8"
_NO_STORE = ("Cache-Control", "no-store")
_FILES = {
    "/login.js": "text/javascript; charset=utf-8",
    "/pages.css": "text/css; charset=utf-8",
}
_MESSAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>rdd: {title}</title>
<link rel="stylesheet" href="/pages.css">
</head>
<body>
<main>
<h1>{title}</h1>
{text}
</main>
</body>
</html>
"""


def _read(name: str) -> bytes:
    return (Path(__file__).parent / name).read_bytes()


def file(path: str) -> Response | None:
    """Return a script or style of these pages."""
    media = _FILES.get(path)
    if media is None:
        return None
    return Response(
        200, _read(path[1:]), content_type=media, headers=[("Cache-Control", "no-cache")]
    )


def login(headers: HeaderList) -> Response:
    """Return the page that completes a login."""
    return Response(200, _read("login.html"), content_type=_HTML, headers=[_NO_STORE, *headers])


def message(status: int, title: str, *paragraphs: str) -> Response:
    """Return a page with a title and paragraphs; text in backticks is code."""
    text = "\n".join(f"<p>{_with_code(paragraph)}</p>" for paragraph in paragraphs)
    body = _MESSAGE.format(title=html.escape(title), text=text).encode()
    return Response(status, body, content_type=_HTML, headers=[_NO_STORE])


def link_refused() -> Response:
    """Return the page of a link that cannot be used."""
    return message(
        403,
        "This link does not work any more",
        "A login link works once, within a minute. It was used, has expired or is incomplete.",
        "Run `rdd dashboard` for a new one.",
    )


def not_built() -> Response:
    """Return the page of a daemon without built files."""
    return message(
        200,
        "The dashboard is not built",
        "The daemon works; only the files of its page are missing.",
        "Build them with `make dashboard` in the source folder, then reload this page.",
    )


def _with_code(text: str) -> str:
    parts = html.escape(text).split("`")
    return "".join(f"<code>{part}</code>" if i % 2 else part for i, part in enumerate(parts))
