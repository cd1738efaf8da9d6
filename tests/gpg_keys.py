# SPDX-License-Identifier: Apache-2.0
"""Keys and detached signatures of publishers, created by the program gpg."""

from dataclasses import dataclass
from pathlib import Path

from tests.programs import run_program


@dataclass(frozen=True)
class GpgKey:
    """A key without a passphrase, in a home directory of its own."""

    home: Path
    public: str
    options: tuple[str, ...] = ()

    @classmethod
    def create(cls, home: Path, *, created: str = "", expires: str = "never") -> "GpgKey":
        """Create a key; `created` is a time such as 20200101T000000."""
        home.mkdir(mode=0o700)
        options = ("--faked-system-time", created) if created else ()
        gpg = ["gpg", "--homedir", str(home), "--batch", "--passphrase", "", *options]
        words = ["--quick-gen-key", f"Publisher {home.name} <p@example>", "ed25519", "sign"]
        run_program([*gpg, *words, expires], check=True)
        exported = run_program([*gpg, "--armor", "--export"], check=True)
        run_program(["gpgconf", "--homedir", str(home), "--kill", "all"], check=True)
        return cls(home, exported.stdout, options)

    def sign(self, path: Path) -> bytes:
        """Return the armoured detached signature of a file."""
        target = self.home / "signature"
        gpg = ["gpg", "--homedir", str(self.home), "--batch", "--yes", *self.options]
        run_program([*gpg, "--armor", "--detach-sign", "-o", str(target), str(path)], check=True)
        run_program(["gpgconf", "--homedir", str(self.home), "--kill", "all"], check=True)
        return target.read_bytes()

    def sign_content(self, content: bytes) -> bytes:
        """Return the armoured detached signature of some content."""
        path = self.home / "signed"
        path.write_bytes(content)
        return self.sign(path)
