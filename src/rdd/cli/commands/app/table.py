# SPDX-License-Identifier: Apache-2.0
"""The commands for the App and their flags: one part of commands/table.py."""

from rdd.cli.framework.types import Command, Flag
from rdd.cli.framework.usual_flags import SHELL_FLAGS, TIMEOUT, WAIT, output

_TIMINGS = Flag("timings", "print the duration of each phase", kind="bool")
_OUTPUT = output()
_WAITING = (WAIT, TIMEOUT, _TIMINGS, _OUTPUT)

SHELL = Command(
    "shell",
    "rdd.cli.commands.app.shell",
    "Run a command or a shell in the virtual machine of the App",
    "Flags must precede COMMAND; everything after it is passed to the command.",
    usage="[--shell S] [--workdir D] [COMMAND…]",
    flags=SHELL_FLAGS,
    raw=True,
)

APP_COMMANDS = (
    Command(
        "delete",
        "rdd.cli.commands.app.delete",
        "Delete the App with its virtual machine, containers, images and volumes",
        "Keeps the control plane; `rdd service delete` removes that, too.",
        flags=_WAITING,
    ),
    Command(
        "doctor",
        "rdd.cli.commands.doctor",
        "Check for common problems and suggest fixes",
        "Works without a running control plane. Exits with 1 if a check fails.",
        flags=(_OUTPUT,),
    ),
    Command(
        "reset",
        "rdd.cli.commands.app.reset",
        "Delete all containers, images and volumes and recreate the machine",
        "Keeps the settings. Starts the new machine if the old one was running.",
        flags=_WAITING,
    ),
    Command(
        "restart",
        "rdd.cli.commands.app.restart",
        "Restart the virtual machine, or start it if it is stopped",
        flags=_WAITING,
    ),
    Command(
        "run",
        "rdd.cli.commands.run",
        "Run a program with the container engine and the cluster of the instance",
        "Starts the App if it is not running. Puts the instance's tools first on PATH, sets\n"
        "DOCKER_CONTEXT and KUBECONFIG and unsets DOCKER_HOST. Exits with the exit code of the "
        "program.",
        usage="COMMAND [ARGS…]",
        raw=True,
    ),
    Command(
        "set",
        "rdd.cli.commands.app.set",
        "Change settings and wait until they take effect",
        "Creates the App if it does not exist.",
        usage="PROPERTY=VALUE…",
        flags=(
            Flag("dry-run", "validate the change without applying it", kind="bool"),
            *_WAITING,
        ),
        min_args=1,
        max_args=None,
        has_details=True,
    ),
    SHELL,
    Command(
        "shell-profile",
        "rdd.cli.commands.shell_profile",
        "Print shell code that puts the instance's tools on PATH",
        'Add it to your shell\'s start-up file, for example ~/.bashrc: eval "$(rdd shell-profile)"',
        flags=(
            Flag(
                "contexts",
                "also set DOCKER_CONTEXT and KUBECONFIG",
                kind="bool",
            ),
            Flag(
                "shell",
                "bash, zsh, fish or sh (default: from SHELL)",
                values=("bash", "zsh", "fish", "sh"),
            ),
        ),
    ),
    Command(
        "start",
        "rdd.cli.commands.app.start",
        "Start the virtual machine and the container engine (set running=true)",
        flags=_WAITING,
    ),
    Command(
        "status",
        "rdd.cli.commands.app.status",
        "Show the state of rdd, its endpoints, problems and the next step",
        "Never starts anything.",
        flags=(_OUTPUT,),
    ),
    Command(
        "stop",
        "rdd.cli.commands.app.stop",
        "Stop the virtual machine and the container engine (set running=false)",
        flags=_WAITING,
    ),
)
