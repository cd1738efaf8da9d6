# SPDX-License-Identifier: Apache-2.0
"""The built files of the page, in the folder `assets` of this package.

Files below `assets/` have a hash of their content in the name and never change; others are
revalidated by ETag. Compressed copies (`.br`, `.gz`) are made when the page is built, so that
nothing is compressed here. The file names of the folder are the only ones that are served: a
path of a request is looked up, never joined to a directory.
"""

import hashlib
import re
from pathlib import Path

from rdd.http.exchange import Exchange
from rdd.http.headers import HeaderList

FOLDER = Path(__file__).parent / "assets"
INDEX = "/index.html"
_IMMUTABLE = "public, max-age=31536000, immutable"
_ENCODINGS = (("br", ".br"), ("gzip", ".gz"))
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json",
    ".map": "application/json",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
    ".txt": "text/plain; charset=utf-8",
    ".webmanifest": "application/manifest+json",
}
_BUILD = re.compile(rb'<meta\s+name="rdd-build"\s+content="([^"]{1,100})"')


class Assets:
    """The files of one build; read once, because a new build comes with a new daemon."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self._files: dict[str, Path] = {}
        if folder.is_dir():
            for path in folder.rglob("*"):
                if path.is_file() and not path.is_symlink():
                    self._files["/" + path.relative_to(folder).as_posix()] = path
        self._tags: dict[str, str] = {}
        self.build = ""
        """Identifies the build; empty if there is none."""
        if INDEX in self._files:
            content = self._files[INDEX].read_bytes()
            found = _BUILD.search(content)
            self.build = found[1].decode("utf-8", "replace") if found else _digest(content)

    @property
    def exist(self) -> bool:
        """Whether the page was built."""
        return INDEX in self._files

    def has(self, path: str) -> bool:
        """Return whether a path is a file."""
        return path in self._files and not path.endswith((".br", ".gz"))

    def send(self, exchange: Exchange, path: str) -> None:
        """Send a file, or 304 if the browser has it."""
        encoding, suffix = self._encoding(path, exchange.headers.get("Accept-Encoding"))
        content = self._files[path + suffix].read_bytes()
        headers: HeaderList = [("Vary", "Accept-Encoding")]
        if path.startswith("/assets/"):
            headers.append(("Cache-Control", _IMMUTABLE))
        else:
            tag = self._tags.setdefault(path + suffix, f'"{_digest(content)}"')
            headers += [("Cache-Control", "no-cache"), ("ETag", tag)]
            if tag in exchange.headers.get("If-None-Match"):
                exchange.send(304, headers)
                return
        media = _TYPES.get(Path(path).suffix.lower(), "application/octet-stream")
        headers.append(("Content-Type", media))
        if encoding:
            headers.append(("Content-Encoding", encoding))
        exchange.send(200, headers, content)

    def _encoding(self, path: str, accepted: str) -> tuple[str, str]:
        names = {
            name.partition(";")[0].strip().lower()
            for name in accepted.split(",")
            if not re.search(r";\s*q=0(\.0*)?\s*$", name)
        }
        for encoding, suffix in _ENCODINGS:
            if encoding in names and path + suffix in self._files:
                return encoding, suffix
        return "", ""


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:32]
