# SPDX-License-Identifier: Apache-2.0
"""The cgroup namespace of a machine where version 2 is the only one, as on most distributions.

Build machines have both versions; a mount namespace of its own shows a process only version 2, at
its usual place. The controllers stay with version 1 there, so limits have tests of their own.
"""

import os
import sys
from pathlib import Path

import pytest
from tests.programs import run_program

from rdd.host.cgroups import Hierarchy, parse_mounts, remove_group

SCRIPT = """
set -eu
mount --make-rprivate /
umount --recursive --lazy /sys/fs/cgroup
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mkdir -p "/sys/fs/cgroup/$1"
echo 0 >"/sys/fs/cgroup/$1/cgroup.procs"
exec "$0" -c '
import os
from rdd.vm.drivers.host.enter import CGROUPS, enter_cgroups
enter_cgroups([(CGROUPS, "cgroup2", "")])
groups = open("/proc/self/cgroup").read().splitlines()
inside = open(f"{CGROUPS}/engine/cgroup.procs").read().split()
print([line for line in groups if line.startswith("0::")], inside == [str(os.getpid())])
'
"""


@pytest.fixture
def version_2() -> Hierarchy:
    if os.geteuid() != 0:
        pytest.skip("only root can make the namespaces")
    found = parse_mounts(Path("/proc/self/mountinfo").read_text())
    mounted = next((hierarchy for hierarchy in found if hierarchy.is_v2), None)
    if mounted is None:
        pytest.skip("this kernel has no control groups of version 2")
    return mounted


def test_version_2_alone_is_mounted_again_in_the_namespace(version_2: Hierarchy) -> None:
    name = f"rdd-test-{os.getpid()}"
    try:
        done = run_program(
            ["unshare", "--mount", "sh", "-c", SCRIPT, sys.executable, name],
            env={"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip() == "['0::/engine'] True"
    finally:
        remove_group(name, [version_2])
