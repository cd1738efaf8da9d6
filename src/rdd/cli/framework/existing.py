# SPDX-License-Identifier: Apache-2.0
"""Reading commands never create an instance: a mistyped name is an error.

Commands that change something create a missing instance (rdd.cli.framework.autostart).
"""

from rdd.base.gotext import quote
from rdd.cli.framework.errors import CommandError
from rdd.cli.framework.types import Call


def require_instance(call: Call) -> None:
    """Raise CommandError with the nearest name if the instance was never created."""
    if problem := missing_instance(call):
        raise CommandError(problem)


def missing_instance(call: Call) -> str:
    """Return that the instance does not exist, and the next step; empty if it exists.

    Raises CommandError if the home directory does not exist: nothing could be created in it.
    """
    from rdd.daemon.service import arguments
    from rdd.daemon.service.errors import ServiceError

    instance = call.instance
    if arguments.exists(instance):
        return ""
    try:
        arguments.require_home(instance)
    except ServiceError as error:
        raise CommandError(str(error)) from error
    from rdd.cli.framework.suggestions import did_you_mean
    from rdd.daemon.service.instances import existing

    others = [found.suffix for found in existing(instance.home, instance.system)]
    hint = did_you_mean(instance.suffix, others)
    create = f"`rdd {selection(call)}start` creates it"
    found = f"; existing instances: {', '.join(others)}" if others else ""
    return f"instance {quote(instance.suffix)} does not exist; " + (hint or f"{create}{found}")


def selection(call: Call) -> str:
    """Return the `--instance NAME ` that selects the call's instance; empty for the default."""
    from rdd.instance import DEFAULT_SUFFIX

    suffix = call.environment.suffix()
    return "" if suffix == DEFAULT_SUFFIX else f"--instance {suffix} "


def is_named(call: Call) -> bool:
    """Return whether the user named the instance, by `--instance` or RDD_INSTANCE."""
    return bool(call.environment.variables.get("RDD_INSTANCE"))
