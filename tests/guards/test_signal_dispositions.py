# SPDX-License-Identifier: Apache-2.0
"""No spawned program inherits an ignored signal, and every spawn goes through rdd.host.

An ignored signal is inherited across exec. A shell starts background jobs with SIGINT ignored;
a host agent, an engine or a virtual machine that inherits this cannot be interrupted.
"""

import ast
import signal
import sys
from pathlib import Path

import pytest
from tests.programs import run_program, with_signals_ignored

SRC = Path(__file__).parents[2] / "src" / "rdd"
INHERITED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
CLEARED = (*INHERITED, signal.SIGPIPE, signal.SIGXFSZ)

SPAWNING = {
    "subprocess": {"Popen", "run", "call", "check_call", "check_output", "getoutput"},
    "asyncio": {"create_subprocess_exec", "create_subprocess_shell"},
    "os": {"system", "popen", "fork", "forkpty", "posix_spawn", "posix_spawnp"}
    | {f"{verb}{how}" for verb in ("exec", "spawn") for how in ("l", "le", "lp", "v", "ve", "vp")}
    | {"execlpe", "execvpe", "spawnlpe", "spawnvpe"},
    "pty": {"fork", "spawn"},
}
ALLOWED = {
    # Programs of their own that import nothing of rdd: started by a host agent, which has no
    # ignored signal, and namespace_init resets all of them in the services it starts.
    "vm/drivers/host/enter.py": {"os.fork", "os.execv", "subprocess.run"},
    "vm/drivers/host/namespace_init.py": {"os.posix_spawn"},
    # Started by dockerd; becomes docker-proxy with the default dispositions.
    "vm/drivers/host/port_proxy.py": {"os.execv"},
}


def spawning_calls(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.attr in SPAWNING.get(node.value.id, ()) and isinstance(node.ctx, ast.Load):
                found.add(f"{node.value.id}.{node.attr}")
        elif isinstance(node, ast.ImportFrom) and node.module in SPAWNING:
            found |= {
                f"{node.module}.{alias.name}"
                for alias in node.names
                if alias.name in SPAWNING[node.module]
            }
    return found


def annotated(path: Path) -> set[str]:
    """Return names that a module uses in annotations only, such as subprocess.Popen[bytes]."""
    tree = ast.parse(path.read_text())
    used: set[int] = set()
    for node in ast.walk(tree):
        for part in (getattr(node, "annotation", None), getattr(node, "returns", None)):
            if part is not None:
                used |= {id(inner) for inner in ast.walk(part)}
    names = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr == "Popen" and id(node) not in used
    ]
    return set() if names else {"subprocess.Popen"}


def test_only_the_host_package_spawns() -> None:
    found = {}
    for path in SRC.rglob("*.py"):
        name = path.relative_to(SRC).as_posix()
        if name.startswith("host/"):
            continue
        calls = spawning_calls(path) - annotated(path) - ALLOWED.get(name, set())
        if calls:
            found[name] = calls
    assert found == {}, "use rdd.host.spawn or rdd.host.commands"


def test_exceptions_are_used() -> None:
    assert {name: spawning_calls(SRC / name) for name in ALLOWED} == ALLOWED


# Prints the dispositions of a child, one line per way to spawn.
PARENT = """
import asyncio, os, pathlib, subprocess, sys, tempfile, threading
from rdd.host import commands, spawn
from rdd.daemon import loop

GREP = ("grep", "SigIgn", "/proc/self/status")

def show(way, text):
    print(way, text.split()[1], flush=True)

def popen(way):
    child = spawn.popen(GREP, stdout=subprocess.PIPE)
    show(way, child.communicate()[0].decode())

def into_log(way):
    with tempfile.TemporaryDirectory() as folder:
        log = pathlib.Path(folder) / "log"
        spawn.spawn_into_log(GREP, log).wait()
        show(way, log.read_text())

def detached(way):
    with tempfile.TemporaryDirectory() as folder:
        log = pathlib.Path(folder) / "log"
        spawn.spawn_detached(
            GREP, environment=os.environ, directory=log.parent, stdout=log, stderr=log
        ).wait()
        show(way, log.read_text())

async def asynchronous(way):
    process = await commands.start_process(*GREP, stdout=subprocess.PIPE)
    show(way, (await process.communicate())[0].decode())
    show(way + " run", (await commands.run(*GREP, timeout_s=60)).output)

popen("popen")
into_log("spawn_into_log")
detached("spawn_detached")
show("run_captured", spawn.run_captured(GREP).stdout)
show("run_blocking", commands.run_blocking(*GREP, timeout_s=60).output)
asyncio.run(asynchronous("asyncio"))
with loop.runner() as runner:
    runner.run(asynchronous("loop of the daemon"))
thread = threading.Thread(target=popen, args=("thread",))
thread.start()
thread.join()
"""


def ignored(mask: str) -> set[signal.Signals]:
    return {number for number in CLEARED if int(mask, 16) >> (number - 1) & 1}


@pytest.mark.skipif(sys.platform != "linux", reason="dispositions are read in /proc")
def test_no_spawned_program_inherits_an_ignored_signal() -> None:
    done = run_program(with_signals_ignored([sys.executable, "-c", PARENT]), check=True)
    found = dict(line.rsplit(" ", 1) for line in done.stdout.splitlines())
    assert len(found) == 10, found
    assert {way: ignored(mask) for way, mask in found.items() if ignored(mask)} == {}


@pytest.mark.skipif(sys.platform != "linux", reason="dispositions are read in /proc")
def test_replaced_process_keeps_inherited_signals_but_not_those_of_python() -> None:
    code = (
        "import os; from rdd.host.signals import replace_process; "
        "replace_process('grep', ['grep', 'SigIgn', '/proc/self/status'], os.environ)"
    )
    done = run_program(with_signals_ignored([sys.executable, "-c", code]), check=True)
    assert ignored(done.stdout.split()[1]) == set(INHERITED)
