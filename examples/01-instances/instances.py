# SPDX-License-Identifier: Apache-2.0
"""Two instances side by side: nothing they own has the same name."""

from pathlib import Path

from rdd.instance import Instance

for suffix in ("2", "work"):
    instance = Instance(suffix, home=Path("/home/me"))
    print(f"{instance.name}: index {instance.index}")
    print(f"  kubeconfig  {instance.config}")
    print(f"  API port    {instance.ports.api}")
    print(f"  Docker      {instance.docker_endpoint}")
