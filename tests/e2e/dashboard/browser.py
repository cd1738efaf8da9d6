# SPDX-License-Identifier: Apache-2.0
"""A browser as the dashboard's protocol describes it: cookies, the key, proofs, tickets."""

import base64
import hmac
import http.client
import json
import secrets
from collections.abc import Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http.cookies import SimpleCookie
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec


@dataclass(frozen=True)
class Answer:
    """A response."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    def json(self) -> Any:
        return json.loads(self.body)


def url_text(data: bytes) -> str:
    """Return base64url without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


@dataclass
class Browser:
    """One profile of a browser; the page of the dashboard is open in it."""

    origin: str
    """`http://rdd-2.localhost:9702`."""
    cookie: str = ""
    session: str = ""
    key: bytes = b""
    csrf: str = ""
    address: str = "127.0.0.1"
    extra: dict[str, str] = field(default_factory=dict)

    @property
    def host(self) -> str:
        return urlsplit(self.origin).netloc

    def send(
        self,
        method: str,
        path: str,
        *,
        body: object = None,
        headers: Mapping[str, str] | None = None,
        credentials: bool = True,
        data: bytes = b"",
    ) -> Answer:
        """Send a request as a script of the page would."""
        port = urlsplit(self.origin).port
        connection = http.client.HTTPConnection(self.address, port, timeout=60)
        given = {"Host": self.host, **self.extra}
        if method not in ("GET", "HEAD"):
            given["Origin"] = self.origin
        if credentials and self.cookie:
            given["Cookie"] = f"rdd_session={self.cookie}"
        if credentials and self.csrf:
            given["X-Rdd-Csrf"] = self.csrf
        if body is not None:
            data = json.dumps(body).encode()
            given["Content-Type"] = "application/json"
        given.update(headers or {})
        try:
            connection.request(method, path, body=data or None, headers=given)
            response = connection.getresponse()
            found = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, found, response.read())
        finally:
            connection.close()

    def open(self, link: str) -> Answer:
        """Follow a login link, and keep the cookie."""
        parts = urlsplit(link)
        self.origin = f"http://{parts.netloc}"
        answer = self.send("GET", f"{parts.path}?{parts.query}")
        if "set-cookie" in answer.headers:
            self.cookie = SimpleCookie(answer.headers["set-cookie"])["rdd_session"].value
        return answer

    def bind(self) -> Answer:
        """Do what the script of the login page does."""
        private = ec.generate_private_key(ec.SECP256R1())
        public = private.public_key().public_bytes(
            serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint
        )
        body = {"key": base64.b64encode(public).decode()}
        answer = self.send("POST", "/session/bind", body=body)
        if answer.status == 200:
            found = answer.json()
            self.session = found["session"]
            theirs = ec.EllipticCurvePublicKey.from_encoded_point(
                ec.SECP256R1(), base64.b64decode(found["key"])
            )
            self.key = private.exchange(ec.ECDH(), theirs)
        return answer

    def hello(self) -> tuple[str, Answer]:
        """Have the daemon prove itself; return our nonce and the answer."""
        nonce = url_text(secrets.token_bytes(16))
        body = {"session": self.session, "nonce": nonce}
        return nonce, self.send("POST", "/session/hello", body=body, credentials=False)

    def is_daemon(self, nonce: str, answer: Answer) -> bool:
        """Return whether an answer to `hello` comes from who has the key."""
        try:
            found = answer.json()
            expected = self.proof("rdd-server", nonce, found["nonce"])
            return answer.status == 200 and hmac.compare_digest(found["proof"], expected)
        except (ValueError, KeyError, TypeError):
            return False

    def proof(self, side: str, nonce: str, theirs: str) -> str:
        message = f"{side}\n{self.host}\n{nonce}\n{theirs}".encode()
        return url_text(hmac.digest(self.key, message, "sha256"))

    def prove(self, **changes: object) -> Answer:
        """Prove the session, as after every loss of the connection."""
        nonce, answer = self.hello()
        if not self.is_daemon(nonce, answer):
            return answer
        theirs = answer.json()["nonce"]
        body = {
            "session": self.session,
            "clientNonce": nonce,
            "nonce": theirs,
            "proof": self.proof("rdd-page", nonce, theirs),
            "protocol": 1,
            **changes,
        }
        proved = self.send("POST", "/session", body=body)
        if proved.status == 200:
            self.csrf = proved.json()["csrf"]
        return proved

    def login(self, link: str) -> "Browser":
        """Follow a link up to an open page."""
        assert self.open(link).status == 200
        assert self.bind().status == 200
        proved = self.prove()
        assert proved.status == 200, proved.text
        return self

    def ticket(self, path: str) -> str:
        answer = self.send("POST", "/ticket", body={"path": path})
        assert answer.status == 200, answer.text
        return str(answer.json()["path"])

    @asynccontextmanager
    async def socket(self, path: str = "/ws", **headers: str) -> Any:
        """Open a WebSocket with a ticket."""
        port = urlsplit(self.origin).port
        target = self.ticket(path)
        given = {"Host": self.host, "Origin": self.origin, **headers}
        given["Cookie"] = f"rdd_session={self.cookie}"
        async with (
            aiohttp.ClientSession() as client,
            client.ws_connect(f"http://{self.address}:{port}{target}", headers=given) as socket,
        ):
            yield socket
