# SPDX-License-Identifier: Apache-2.0
"""The keys, the serving certificate and the tokens of one control plane.

They are files in `tls/` of the instance, and those of `--identity-dir` if several servers share
them (`rdd.daemon.sharing`). `ensure` creates what is missing, renews what expires, and adopts what
another server has stored; it is repeated while the control plane runs.
"""

from collections.abc import Callable, Mapping

from rdd.apiserver.auth import certificates
from rdd.apiserver.http.request import User
from rdd.client import kubeconfig
from rdd.daemon import connection
from rdd.host.files import remove, write_atomically
from rdd.instance import Instance

ADMIN = User(kubeconfig.ADMIN_USER, ("system:masters",))
READER = User(kubeconfig.READER_USER)


class Credentials:
    """The credentials of one control plane; empty until `ensure`."""

    serving: certificates.Issued
    signing_key: bytes
    tokens: Mapping[str, str]
    """Context name → bearer token."""

    def __init__(
        self,
        instance: Instance,
        share: Callable[[Callable[[], None]], None],
        prepared: tuple[certificates.KeyPair, bytes] | None,
    ) -> None:
        """`share` calls a function on files that other servers use, too.

        `prepared` is what a helper process has created for the first start.
        """
        self._instance = instance
        self._share = share
        self._prepared = prepared

    def ensure(self) -> None:
        """Read, create or renew everything; it blocks. Raises HostError, ServiceError."""
        self._share(self._ensure)

    def renewed(self) -> certificates.Issued:
        """Return the serving certificate, a new one if it expires soon; it blocks."""
        self.ensure()
        return self.serving

    def rotate_tokens(self) -> None:
        """Replace the tokens; it blocks. Raises HostError."""
        self.tokens = connection.rotate_tokens(self._instance)

    def users(self) -> dict[str, User]:
        """Return the users of the tokens."""
        return {
            self.tokens[kubeconfig.ADMIN_CONTEXT]: ADMIN,
            self.tokens[kubeconfig.READER_CONTEXT]: READER,
        }

    def write_kubeconfig(self, address: str) -> None:
        """Write the kubeconfig: context `root` (admin) and `user`."""
        text = kubeconfig.render(
            f"https://{address}",
            authority=self.serving.pair.certificate.decode(),
            admin_token=self.tokens[kubeconfig.ADMIN_CONTEXT],
            reader_token=self.tokens[kubeconfig.READER_CONTEXT],
        )
        write_atomically(self._instance.config, text, durable=False)

    def remove_kubeconfig(self) -> None:
        """Remove the kubeconfig."""
        remove(self._instance.config)

    def _ensure(self) -> None:
        pair, signing_key = self._prepared or (None, b"")
        self._prepared = None  # a renewal must not use it again
        directory = self._instance.tls_dir
        self.serving = certificates.ensure_serving(directory, prepared=pair)
        self.signing_key = certificates.ensure_signing_key(directory, prepared=signing_key)
        self.tokens = connection.keep_tokens(self._instance)
