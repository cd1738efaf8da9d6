# SPDX-License-Identifier: Apache-2.0
"""Files that flags of `service serve` name: static tokens, audit policy and audit log.

They are read when the daemon starts; one that cannot be used fails the start with the reason.
Modules are imported only if the flag is given.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rdd.apiserver.http.request import User
from rdd.daemon.service.errors import ServiceError

if TYPE_CHECKING:
    from rdd.apiserver.audit.auditor import Auditor

log = logging.getLogger("rdd.daemon")


@dataclass(frozen=True, slots=True)
class AuditOptions:
    """The audit flags of kube-apiserver."""

    policy_file: str = ""
    log_path: str = ""
    """`-` is stdout; empty disables the log."""
    max_age_days: int = 0
    max_backups: int = 0
    max_size_mib: int = 0
    log_format: str = "json"


def token_file_users(path: str) -> Mapping[str, User]:
    """Return the users of --token-auth-file by token. Raises ServiceError."""
    if not path:
        return {}
    from rdd.apiserver.auth.token_file import TokenFileError, read_token_file

    try:
        return read_token_file(path)
    except TokenFileError as error:
        raise ServiceError(str(error)) from error


def open_auditor(options: AuditOptions) -> "Auditor | None":
    """Return the audit log, None if it is off. Raises ServiceError."""
    if options.log_format != "json":
        raise ServiceError(
            f'invalid --audit-log-format "{options.log_format}"; only json is supported'
        )
    flags = {
        "audit-log-maxage": options.max_age_days,
        "audit-log-maxbackup": options.max_backups,
        "audit-log-maxsize": options.max_size_mib,
    }
    for flag, value in flags.items():
        if value < 0:
            raise ServiceError(f"--{flag} {value} can't be a negative number")
    if not options.policy_file:
        if options.log_path:
            log.warning("no audit policy file provided, no events will be recorded")
        return None
    from rdd.apiserver.audit.auditor import Auditor
    from rdd.apiserver.audit.log_file import AuditLogFile
    from rdd.apiserver.audit.policy import PolicyError, load_policy

    try:
        policy = load_policy(options.policy_file)
    except PolicyError as error:
        raise ServiceError(str(error)) from error
    if not options.log_path:
        return None
    try:
        sink = AuditLogFile(
            options.log_path,
            maximum_mib=options.max_size_mib,
            backups=options.max_backups,
            days=options.max_age_days,
        )
    except OSError as error:
        raise ServiceError(
            f'cannot write "{options.log_path}" (--audit-log-path): {error.strerror or error}'
        ) from error
    return Auditor(policy, sink)
