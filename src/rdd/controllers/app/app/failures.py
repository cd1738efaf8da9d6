# SPDX-License-Identifier: Apache-2.0
"""The failure of an App: what only the user can resolve, and the command that does.

The cause is typed where it occurs (`rdd.host.errors.FailureReason`) and passed on by the host
agent and the LimaVM. A cause without a command of its own gets one here, where the instance is
known.
"""

from rdd.api import names
from rdd.api.types import Object
from rdd.controllers.app.commands import largest_directories, rdd_command
from rdd.host.errors import FailureReason
from rdd.instance import Instance
from rdd.kinds.limavm import LimaVM
from rdd.runtime import Condition

_OF_MACHINE = ("CreateFailed", "StartFailed")


def failure(reason: str, remedy: str) -> Object:
    """Return a failure; one without a remedy has no such member."""
    return {"reason": reason, "remedy": remedy} if remedy else {"reason": reason}


def not_ours(instance: Instance, kind: str, namespace: str) -> Object:
    """Return the failure of an object with the name of the App's machine that is not its own."""
    remedy = f"ctl delete {kind} {names.APP_VM_NAME} --namespace {namespace}"
    return failure("NotOurs", rdd_command(instance, remedy))


def failure_of(vm: LimaVM | None, settled: Condition, instance: Instance) -> Object | None:
    """Return the failure of the LimaVM if it is why the App is not settled."""
    found = vm.status.failure if vm is not None else None
    if found is None or settled.reason not in _OF_MACHINE:
        return None
    return failure(found.reason, found.remedy or _default_remedy(found.reason, instance))


def _default_remedy(reason: str, instance: Instance) -> str:
    match reason:
        case FailureReason.DISK_FULL:
            return largest_directories(instance.home)
        case FailureReason.NO_PERMISSION:
            return f"ls -ld '{instance.dir}' '{instance.short_dir}' '{instance.lima_home}'"
        case FailureReason.NOT_ALLOWED:
            return rdd_command(instance, "profile show")
        case FailureReason.NO_NETWORK:
            return rdd_command(instance, "start")  # retries, once this host is online
        case _:
            return ""
