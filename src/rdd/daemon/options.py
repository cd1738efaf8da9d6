# SPDX-License-Identifier: Apache-2.0
"""The options of a control plane, as `rdd service serve` gets them from its flags."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rdd.controllers import catalog
from rdd.controllers.catalog import ControllerEntry
from rdd.daemon.flag_files import AuditOptions

if TYPE_CHECKING:
    from rdd.daemon.key_issuer import KeyIssuer


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """The options of a control plane."""

    secure_port: int = 6443
    """Port on 127.0.0.1; another free one is used if it is taken. 0: any."""
    controllers: str = "*"
    """Selection of the project's own controllers."""
    builtin_controllers: str = "*"
    """Selection of the built-in controllers."""
    client_ca_file: str = ""
    """Authorities whose client certificates identify users (common name, organisations)."""
    token_auth_file: str = ""
    """CSV file of static tokens: token, user name, uid, groups."""
    audit: AuditOptions = field(default_factory=AuditOptions)
    """The audit log; off by default."""
    version: str = ""
    """Version of rdd, shown behind the Kubernetes version."""
    http2: bool = True
    """Whether clients may negotiate HTTP/2."""
    allowed_hosts: Sequence[str] = ()
    """Host names of requests, besides loopback names and those of the serving certificate."""
    allowed_origins: Sequence[str] = ()
    """Origins of pages that may open WebSockets, besides the server's own."""
    has_open_metrics: bool = False
    """Whether /metrics of the controllers needs no token."""
    idle_timeout_s: float = 0
    """Stop after this time without a request; 0: never."""
    store: str = ""
    """Address of the store, `etcd://…`; empty: the database of the instance."""
    machine: str = ""
    """The machine that objects of this server belong to, on a shared store."""
    identity_dir: str = ""
    """Directory with the keys and tokens that several servers share; empty: those of tls/."""
    listen_address: str = ""
    """HOST:PORT to listen on besides 127.0.0.1, with the certificate below."""
    tls_cert_file: str = ""
    tls_private_key_file: str = ""
    has_user_admission: bool = True
    """Whether admission webhooks outside of this process and admission policies take effect."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """The environment variables of the process, for the controllers."""
    entries: Sequence[ControllerEntry] = catalog.ENTRIES
    """The controllers to select from."""
    key_issuer: "KeyIssuer | None" = None
    """Creates the first keys in another process; None: they are created when needed."""
