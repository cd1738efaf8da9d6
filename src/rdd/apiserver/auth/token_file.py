# SPDX-License-Identifier: Apache-2.0
"""The static token file (`--token-auth-file`): lines `token,user name,uid[,"group1,group2"]`.

The rules are those of kube-apiserver: the file is read once, at start; a record needs three
columns; an empty token is skipped with a warning; of equal tokens the last one wins.
"""

import csv
import io
import logging
from pathlib import Path

from rdd.apiserver.http.request import User

log = logging.getLogger("rdd.apiserver")


class TokenFileError(Exception):
    """The file cannot be read or a record is incomplete."""


def read_token_file(path: str | Path) -> dict[str, User]:
    """Return the users by token. Raises TokenFileError; its text never contains a token."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise TokenFileError(f'cannot read "{path}" (--token-auth-file): {why}') from error
    users: dict[str, User] = {}
    try:
        records = [r for r in csv.reader(io.StringIO(text), strict=True) if r]
    except csv.Error as error:
        raise TokenFileError(f'"{path}" (--token-auth-file) is not CSV: {error}') from error
    for number, record in enumerate(records, 1):
        if len(record) < 3:
            raise TokenFileError(
                f"token file '{path}' must have at least 3 columns "
                f"(token, user name, user uid), found {len(record)}"
            )
        token, name, uid = record[:3]
        if not token:
            log.warning("empty token found in token file '%s', record number '%d'", path, number)
            continue
        if token in users:
            log.warning("duplicate token found in token file '%s', record '%d'", path, number)
        groups = tuple(record[3].split(",")) if len(record) > 3 and record[3] else ()
        users[token] = User(name, groups, uid=uid)
    return users
