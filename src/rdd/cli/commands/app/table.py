# SPDX-License-Identifier: Apache-2.0
"""The commands for the App: settings, start, stop, and what is going on."""

from rdd.cli.framework.types import Command, Flag
from rdd.cli.framework.usual_flags import SHELL_FLAGS, TIMEOUT, WAIT, output

_TIMINGS = Flag("timings", "show how long each phase took", kind="bool")
_OUTPUT = output()
_WAITING = (WAIT, TIMEOUT, _TIMINGS, _OUTPUT)

SHELL = Command(
    "shell",
    "rdd.cli.commands.app.shell",
    "Run a command, or a shell, in the virtual machine of the App",
    "Flags must stand before COMMAND; everything from it on belongs to the command.",
    usage="[--shell S] [--workdir D] [COMMAND…]",
    flags=SHELL_FLAGS,
    raw=True,
)

APP_COMMANDS = (
    Command(
        "delete",
        "rdd.cli.commands.app.delete",
        "Delete the App with its virtual machine, containers, images and volumes",
        "The control plane stays; `rdd service delete` removes that too.",
        flags=_WAITING,
    ),
    Command(
        "doctor",
        "rdd.cli.commands.doctor",
        "Check what users stumble over, and say what to do about it",
        "Works when the control plane is down. Exit code 1 if something is wrong.",
        flags=(_OUTPUT,),
    ),
    Command(
        "reset",
        "rdd.cli.commands.app.reset",
        "Begin anew: remove all containers, images and volumes, keep the settings",
        "The virtual machine is made again, and runs again if it did.",
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
        "Starts the App if it does not run. The program finds the instance's tools first on PATH,"
        "\nDOCKER_CONTEXT and KUBECONFIG are set, DOCKER_HOST is not. The exit code is the "
        "program's.",
        usage="COMMAND [ARGS…]",
        raw=True,
    ),
    Command(
        "set",
        "rdd.cli.commands.app.set",
        "Change settings of the App and wait until they hold",
        "An App that does not exist is made.",
        usage="PROPERTY=VALUE…",
        flags=(
            Flag("dry-run", "have the change checked, but not made", kind="bool"),
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
        "Print lines for a shell's start-up file that put the instance's tools on PATH",
        'For example in ~/.bashrc: eval "$(rdd shell-profile)"',
        flags=(
            Flag(
                "contexts",
                "also set DOCKER_CONTEXT and KUBECONFIG to those of the instance",
                kind="bool",
            ),
            Flag(
                "shell",
                "bash, zsh, fish or sh (default: the one in SHELL)",
                values=("bash", "zsh", "fish", "sh"),
            ),
        ),
    ),
    Command(
        "start",
        "rdd.cli.commands.app.start",
        "Start the virtual machine and the container engine: set running=true",
        flags=_WAITING,
    ),
    Command(
        "status",
        "rdd.cli.commands.app.status",
        "Show what runs, how to reach it, what is wrong and the next step",
        "Starts nothing.",
        flags=(_OUTPUT,),
    ),
    Command(
        "stop",
        "rdd.cli.commands.app.stop",
        "Stop the virtual machine and the container engine: set running=false",
        flags=_WAITING,
    ),
)
