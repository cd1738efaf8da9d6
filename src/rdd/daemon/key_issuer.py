# SPDX-License-Identifier: Apache-2.0
"""Creates the first keys of an instance in a process of its own.

`cryptography` is needed once in the life of an instance, on its first start: importing it takes
50 ms and 11 MiB, which the daemon would keep. The child creates the keys while the daemon imports
its modules, prints them and exits. It writes no file: only the holder of the instance's lock may.
A child that fails is no failure of the start, because the daemon then creates the keys itself.

    python -m rdd.daemon.key_issuer     prints a JSON object of PEM texts
"""

import subprocess
import sys
from pathlib import Path
from typing import Self

from rdd.apiserver.auth import certificates
from rdd.apiserver.auth.certificates import KeyPair
from rdd.host import spawn

TIMEOUT_S = 10.0


class KeyIssuer:
    """A running child that creates the serving pair and the signing key."""

    def __init__(self) -> None:
        self._child = spawn.popen(
            [sys.executable, "-m", "rdd.daemon.key_issuer"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    @classmethod
    def start_if_needed(cls, directory: Path) -> Self | None:
        """Start a child if a directory has no serving pair yet."""
        if not sys.executable or (directory / f"{certificates.SERVING}.crt").exists():
            return None
        try:
            return cls()
        except OSError:
            return None

    def result(self) -> tuple[KeyPair, bytes] | None:
        """Wait for the serving pair and the signing key; None if the child failed."""
        import json

        try:
            printed, _ = self._child.communicate(timeout=TIMEOUT_S)
            found = {name: text.encode() for name, text in json.loads(printed).items()}
            return KeyPair(found["certificate"], found["key"]), found["signingKey"]
        except (subprocess.TimeoutExpired, ValueError, LookupError, AttributeError, OSError):
            return None
        finally:
            self.close()

    def close(self) -> None:
        """End the child if it still runs, and reap it."""
        if self._child.poll() is None:
            self._child.kill()
            self._child.wait()
        if self._child.stdout is not None:
            self._child.stdout.close()


def main() -> None:
    import json

    pair = certificates.create_serving()
    found = {"certificate": pair.certificate, "key": pair.key}
    found["signingKey"] = certificates.create_signing_key()
    sys.stdout.write(json.dumps({name: pem.decode() for name, pem in found.items()}))


if __name__ == "__main__":
    main()
