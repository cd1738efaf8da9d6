# SPDX-License-Identifier: Apache-2.0
"""The requirements of a guest, as in Lima.

Essential: ssh works, and the guest has been set up in this boot (a marker file holds the id of
this boot). Optional: mounts and the template's probes. Final: the boot scripts have ended. A
failed script does not prevent a machine from running; the machine is degraded, and the errors
contain the end of the script's output.
"""

import shlex
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from rdd.host.files import write_atomically
from rdd.vm.cidata import BOOT_DONE, FAILURES, LOG, SSH_READY
from rdd.vm.drivers.protocol import Requirement, RequirementPhase, Unmet
from rdd.vm.drivers.qemu.guest_connection import GuestConnection
from rdd.vm.ssh import SshError
from rdd.vm.template.model import CopyToHost, Probe, Template

_SSH_INTERVAL_S = 0.25
_PROBE_INTERVAL_S = 3.0
_PROBE_TIMEOUT_S = 300.0
# One ssh session waits for some 20 s; each check costs an emulated guest two processes.
_DELAYS = "0.1 0.2 0.4 0.8 " + "1 " * 18
_WAIT_IN_GUEST_S = 20


class GuestRequirements:
    def __init__(
        self,
        connection: GuestConnection,
        template: Template,
        *,
        instance_id: str,
        degrade: Callable[[str], None],
    ) -> None:
        self._connection = connection
        self._template = template
        self._id = instance_id
        self._degrade = degrade

    def requirements(
        self,
        *,
        after_ssh: Callable[[], Awaitable[None]],
        mounts: Sequence[Requirement],
    ) -> list[Requirement]:
        """Return all requirements in order. `after_ssh` runs when the connection is established."""

        async def ssh() -> None:
            await self._connection.connect()
            await after_ssh()

        found = [
            Requirement(
                RequirementPhase.ESSENTIAL,
                "ssh",
                ssh,
                hint="see serial.log in the machine's directory",
                interval_s=_SSH_INTERVAL_S,
            )
        ]
        if self._template.plain:
            return found
        found.append(
            Requirement(
                RequirementPhase.ESSENTIAL,
                "the guest is set up",
                self._is_set_up,
                hint=f"see {LOG} in the guest",
                interval_s=_SSH_INTERVAL_S,
            )
        )
        found += mounts
        found += [self._probe(probe) for probe in self._template.probes]
        found.append(
            Requirement(
                RequirementPhase.FINAL,
                "boot scripts have finished",
                self._is_booted,
                hint=f"see {LOG} in the guest",
                interval_s=_SSH_INTERVAL_S,
            )
        )
        found += [self._copy(item) for item in self._template.copy_to_host]
        return found

    def _copy(self, item: CopyToHost) -> Requirement:
        async def check() -> None:
            try:
                answer = await self._connection.run(f"sudo -n cat {shlex.quote(item.guest)}")
            except SshError as error:
                raise Unmet(str(error)) from error
            if answer.status != 0:
                raise Unmet(answer.errors.strip())
            path = Path(item.host)
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomically(path, answer.output)

        return Requirement(RequirementPhase.FINAL, f"copy of {item.guest}", check, timeout_s=60)

    async def _is_set_up(self) -> None:
        await self._wait_for_marker(SSH_READY)

    async def _is_booted(self) -> None:
        await self._wait_for_marker(BOOT_DONE)
        answer = await self._run(f"cat {FAILURES} 2>/dev/null")
        for problem in failures(answer):
            self._degrade(problem)

    async def _wait_for_marker(self, path: str) -> None:
        """Wait for a marker file inside the guest: each ssh session is slow under emulation."""
        wanted = shlex.quote(f"instance-id: {self._id}")
        line = (
            f"for delay in {_DELAYS}; do "
            f"grep -qxF {wanted} {path} 2>/dev/null && exit 0; sleep $delay; done; exit 3"
        )
        await self._run(line, timeout_s=_WAIT_IN_GUEST_S + 10, unmet=f"{path} does not exist yet")

    async def _run(self, line: str, *, timeout_s: float = 30, unmet: str = "") -> str:
        try:
            answer = await self._connection.run(f"sh -c {shlex.quote(line)}", timeout_s=timeout_s)
        except SshError as error:
            raise Unmet(str(error)) from error
        if unmet and answer.status != 0:
            raise Unmet(answer.errors.strip() or unmet)
        return answer.output

    def _probe(self, probe: Probe) -> Requirement:
        shebang = probe.script.partition("\n")[0]
        interpreter = shebang.removeprefix("#!").strip() or "/bin/sh"
        params = {f"PARAM_{key}": value for key, value in self._template.param.items()}
        words = ["env", *(f"{key}={value}" for key, value in params.items())]
        line = f"{shlex.join(words)} {interpreter}" if params else interpreter

        async def check() -> None:
            try:
                answer = await self._connection.run(
                    line, script=probe.script, timeout_s=_PROBE_TIMEOUT_S
                )
            except SshError as error:
                raise Unmet(str(error)) from error
            if answer.status != 0:
                output = (answer.errors or answer.output).strip().splitlines()[-1:]
                raise Unmet(f"exit status {answer.status}{': ' + output[0] if output else ''}")

        return Requirement(
            RequirementPhase.OPTIONAL,
            probe.description or "user probe",
            check,
            hint=" ".join(probe.hint.split()),
            interval_s=_PROBE_INTERVAL_S,
        )


def failures(text: str) -> list[str]:
    """Return one line per failed script: name, exit status, end of its output."""
    found: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if line.startswith("  ") and found:
            found[-1][1].append(line.strip())
        elif line.strip():
            found.append((line.strip(), []))
    return [f"{head}: {' / '.join(words)}" if words else head for head, words in found]
