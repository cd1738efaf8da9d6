# SPDX-License-Identifier: Apache-2.0
"""The kubeconfig that kubectl's flags and environment select, with its error messages.

`--kubeconfig` names one file; else KUBECONFIG lists files, else it is
~/.kube/config. A missing file is empty unless `--kubeconfig` names it. Flags
override the selected context.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rdd.base.pflag import Flags
from rdd.client.kubeconfig import (
    ConnectionConfig,
    Kubeconfig,
    KubeconfigError,
    Overrides,
    UnsupportedSetting,
    decode,
    default_paths,
)
from rdd.kubectl.errors import KubectlError, VerbatimError, unsupported

DEFAULT_SERVER = "http://localhost:8080"


def locate(flags: Flags, variables: Mapping[str, str]) -> Kubeconfig:
    """Return the merged files that flags and environment select."""
    if path := flags.text("kubeconfig"):
        return merge([Path(path)], must_exist=True)
    return merge(default_paths(variables))


def merge(paths: list[Path], *, must_exist: bool = False) -> Kubeconfig:
    """Return the merged content of files."""
    config = Kubeconfig()
    for path in paths:
        config.add(read_file(path, must_exist=must_exist), path)
    return config


def read_file(path: Path, *, must_exist: bool = False) -> dict[str, Any]:
    """Return the content of one file."""
    try:
        return decode(path.read_bytes())
    except FileNotFoundError:
        if must_exist:
            raise KubectlError(f"stat {path}: no such file or directory") from None
        return {}
    except OSError as error:
        problem = f"open {path}: {(error.strerror or '').lower()}"
    except KubeconfigError as error:
        problem = str(error)
    raise KubectlError(f'error loading config file "{path}": {problem}')


def connection_config(config: Kubeconfig, flags: Flags) -> ConnectionConfig:
    """Return address and credentials with the flags applied."""
    context = flags.text("context")
    if not context and config.current and config.current not in config.entries["contexts"]:
        raise VerbatimError(
            "Error in configuration: \n"
            f"* context was not found for specified context: {config.current}\n"
            "* cluster has no server defined"
        )
    overrides = Overrides(
        context=context,
        cluster=flags.text("cluster"),
        user=flags.text("user"),
        server=flags.text("server"),
        token=flags.text("token"),
        authority_file=flags.text("certificate-authority"),
        client_certificate_file=flags.text("client-certificate"),
        client_key_file=flags.text("client-key"),
        is_insecure=flags.truth("insecure-skip-tls-verify"),
        server_name=flags.text("tls-server-name"),
        impersonate_user=flags.text("as"),
        impersonate_groups=tuple(flags.texts("as-group")),
        impersonate_uid=flags.text("as-uid"),
    )
    try:
        found = config.connection(overrides)
    except UnsupportedSetting as error:
        raise unsupported(error.setting) from None
    server = found.server or DEFAULT_SERVER
    return found._replace(server=server if "://" in server else f"http://{server}")
