# SPDX-License-Identifier: Apache-2.0
"""`rdd package key`: the fingerprint by which others trust packages of this user."""

from rdd.cli.framework.errors import CommandError
from rdd.cli.framework.types import Call


def run(call: Call) -> int:
    from rdd.fetch.signing import SigningKey, key_path
    from rdd.host.errors import HostError

    path = key_path(call.environment.variables, call.instance.home)
    try:
        key = SigningKey.of_user(path)
    except HostError as error:
        raise CommandError(str(error)) from error
    call.out.write(f"{key.fingerprint}\n")
    call.log.info(f"the private key is {path}")
    return 0
