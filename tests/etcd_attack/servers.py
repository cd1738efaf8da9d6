# SPDX-License-Identifier: Apache-2.0
"""API servers under attack: `rdd service serve` with relays to every member of etcd."""

import base64
import contextlib
import os
import signal
import ssl
import sys
import time
from pathlib import Path

import yaml
from tests.etcd_attack.cluster import CLIENT_PORT, Cluster
from tests.etcd_attack.relay import Relay
from tests.etcd_attack.workload import Endpoint
from tests.programs import Program, start_program

from rdd.instance import Instance

RDD = Path(sys.executable).with_name("rdd")


class ServerUnderAttack:
    """A process that is killed, paused and cut off."""

    def __init__(
        self, home: Path, suffix: str, cluster: Cluster, environment: dict[str, str]
    ) -> None:
        self._home = home
        self._environment = environment
        self.instance = Instance(suffix, home)
        self.relays = [Relay(member.address, CLIENT_PORT) for member in cluster.members]
        self.program: Program[str] | None = None
        self._stack = contextlib.ExitStack()
        self.endpoint = Endpoint("", "", ssl.create_default_context())

    async def open_relays(self) -> None:
        for relay in self.relays:
            await relay.start()

    def start(self) -> None:
        """Start the process; `is_ready` shows when it serves."""
        hosts = ",".join(f"127.0.0.1:{relay.port}" for relay in self.relays)
        self._home.mkdir(parents=True, exist_ok=True)
        log = self._stack.enter_context(self.log.open("ab"))
        environment = {
            "HOME": str(self._home),
            "PATH": os.environ["PATH"],
            "RDD_INSTANCE": self.instance.suffix,
            **self._environment,
        }
        command: list[str | Path] = [
            RDD,
            "service",
            "serve",
            "--controllers=",
            f"--store=etcd://{hosts}/rdd/attack?shared=true",
        ]
        self.program = self._stack.enter_context(
            start_program(command, env=environment, stdout=log, stderr=log)
        )

    @property
    def log(self) -> Path:
        return self._home / f"{self.instance.suffix}.log"

    def is_ready(self) -> bool:
        """Return whether the kubeconfig has been written; read it then."""
        assert self.program is not None
        if self.program.poll() is not None:  # the cluster was not available: try again
            self.stop()
            self.start()
        try:
            config = yaml.safe_load(self.instance.config.read_text())
        except OSError:
            return False
        cluster = config["clusters"][0]["cluster"]
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        self.endpoint.url = cluster["server"]
        self.endpoint.token = config["users"][0]["user"]["token"]
        self.endpoint.tls = ssl.create_default_context(cadata=authority)
        return True

    def wait_ready(self) -> None:
        end = time.monotonic() + 90
        while not self.is_ready():
            assert time.monotonic() < end, self.log.read_text()[-4000:]
            time.sleep(0.05)

    def signal(self, number: signal.Signals) -> None:
        assert self.program is not None
        os.kill(self.program.pid, number)

    def stop(self) -> None:
        """Kill the process."""
        self._stack.close()
        with contextlib.suppress(OSError):
            self.instance.config.unlink()
