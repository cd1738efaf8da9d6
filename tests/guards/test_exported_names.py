# SPDX-License-Identifier: Apache-2.0
"""The public names of modules that other packages and projects use.

A name added here or removed is a change of the public interface and needs a line in CHANGELOG.md.
"""

import rdd
import rdd.cli.framework.types
import rdd.host.logs
import rdd.instance


def public(module: object) -> set[str]:
    """Return the names that a module defines or declares, without imported ones."""
    name = getattr(module, "__name__", "")
    declared = getattr(module, "__all__", None)
    if declared is not None:
        return set(declared)
    return {
        key
        for key, value in vars(module).items()
        if key[0] != "_" and getattr(value, "__module__", name) == name and not _is_module(value)
    }


def _is_module(value: object) -> bool:
    return type(value).__name__ == "module"


def test_the_package_exports_its_version_only() -> None:
    assert [key for key in vars(rdd) if key == "__version__"] == ["__version__"]
    assert {key for key in public(rdd) if not hasattr(getattr(rdd, key), "__path__")} == set()


def test_instance() -> None:
    constants = {name for name in public(rdd.instance) if name.isupper() and len(name) > 1}
    assert public(rdd.instance) - constants - {"P", "System"} == {
        "Directories",
        "Instance",
        "InvalidInstanceName",
        "Ports",
        "check_suffix",
        "directories",
        "index",
        "lock_directory",
    }
    fields = {name for name in vars(rdd.instance.Instance) if name[0] != "_"}
    assert fields == {
        "args_file",
        "backup_dir",
        "bin_dir",
        "config",
        "crash_file",
        "dashboard_file",
        "dashboard_page",
        "dashboard_port_file",
        "database",
        "dir",
        "docker_endpoint",
        "docker_socket",
        "home",
        "index",
        "k3s_config",
        "kube_config",
        "lima_home",
        "lock_file",
        "log_dir",
        "log_dir_override",
        "name",
        "old_lock_file",
        "paths",
        "pid_file",
        "ports",
        "quarantine_file",
        "record_file",
        "restore_journal",
        "short_dir",
        "snapshot_dirs",
        "suffix",
        "system",
        "tls_dir",
        "tools_bin_dir",
        "tools_dir",
        "port_file",
        "tokens_file",
        "trash_dirs",
        "version_file",
    }


def test_contract_of_a_command() -> None:
    assert public(rdd.cli.framework.types) == {
        "Call",
        "Command",
        "CommandError",
        "Flag",
        "Flags",
        "Group",
        "Value",
        "Visibility",
        "command_path",
        "visible",
    }


def test_log_rotation() -> None:
    assert public(rdd.host.logs) == {"KEEP", "rotate"}
