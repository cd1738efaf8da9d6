# SPDX-License-Identifier: Apache-2.0
"""The commands for the App and their flags: one part of commands/declarations.py."""

from rdd.cli.framework.types import Command, Flag, Group
from rdd.cli.framework.usual_flags import NO_TRASH, SHELL_FLAGS, TIMEOUT, WAIT, YES, output

_TIMINGS = Flag("timings", "print the duration of each phase", kind="bool")
_OUTPUT = output()
_WAITING = (WAIT, TIMEOUT, _TIMINGS, _OUTPUT)
_FETCH = Flag("yes", "fetch missing programs without asking", kind="bool", short="y")

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
        flags=(*_WAITING, NO_TRASH, YES),
    ),
    Command(
        "doctor",
        "rdd.cli.commands.doctor",
        "Check for common problems and suggest fixes",
        "Works without a running control plane. Exits with 1 if a check fails.",
        flags=(_OUTPUT,),
    ),
    Command(
        "get",
        "rdd.cli.commands.app.get",
        "Show settings, their defaults and where the values come from",
        "With PROPERTY, shows that one, or all below it.",
        usage="[PROPERTY]",
        completes="properties",
        flags=(_OUTPUT,),
        max_args=1,
    ),
    Command(
        "history",
        "rdd.cli.commands.app.history",
        "List the changes of settings, the newest first",
        "Keeps the last 500 changes of 90 days. Passwords in URLs are masked.",
        flags=(_OUTPUT,),
    ),
    Command(
        "reset",
        "rdd.cli.commands.app.reset",
        "Delete all containers, images and volumes and recreate the machine",
        "Keeps the settings. Starts the new machine if the old one was running.",
        flags=(*_WAITING, NO_TRASH, YES),
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
        "Creates the App if it does not exist. Lists are separated by commas; @FILE reads a list "
        "or map from a file (certificates, JSON or YAML), @- from stdin.",
        usage="PROPERTY=VALUE…",
        completes="assignments",
        flags=(
            Flag(
                "dry-run",
                "show old and new values and what restarts, without applying the change",
                kind="bool",
            ),
            *_WAITING,
            _FETCH,
        ),
        min_args=1,
        max_args=None,
        has_details=True,
    ),
    Group(
        "settings",
        "Export and import all settings",
        (
            Command(
                "export",
                "rdd.cli.commands.app.settings_file",
                "Write all settings as YAML, to a new file or to stdout",
                "kubectl apply accepts the file, too.",
                usage="[FILE]",
                max_args=1,
            ),
            Command(
                "import",
                "rdd.cli.commands.app.settings_file",
                "Make the settings those of a file",
                "What the file does not have returns to its default. `-` reads stdin.",
                usage="FILE",
                flags=(
                    Flag("dry-run", "only show what would change", kind="bool"),
                    *_WAITING,
                ),
                min_args=1,
                max_args=1,
            ),
        ),
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
                "own-tools-first",
                "put the instance's tools last, so that installed programs of the same name run",
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
        flags=(*_WAITING, _FETCH),
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
    Command(
        "undo",
        "rdd.cli.commands.app.undo",
        "Undo the last change of settings",
        "Fails if the setting was changed since, and shows both values.",
        flags=(Flag("dry-run", "only show what would change", kind="bool"), *_WAITING),
    ),
)
