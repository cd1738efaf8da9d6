# SPDX-License-Identifier: Apache-2.0
"""Messages of the API in the words of commands.

Reasons and messages of conditions, and the texts of rejected requests, are an interface that
other programs match: they name Lima whatever the driver is, and the webhook that rejected a
request. Commands show the sentence that is meant for people.
"""

import re

_COMMAND = re.compile(r"(`|&& |with: |did you mean \")rdd (?!--instance)")
_DENIED = re.compile(r'admission webhook "[^"]*" denied the request: ')


def plain(text: str) -> str:
    """Return a message of the API without its machinery."""
    return _DENIED.sub("", text).replace("Lima instance", "Virtual machine")


def addressed(text: str, suffix: str) -> str:
    """Return a message whose suggested commands select an instance that is not the default.

    Then they can be pasted as they are.
    """
    from rdd.instance import DEFAULT_SUFFIX, InvalidInstanceName, check_suffix

    try:
        check_suffix(suffix)
    except InvalidInstanceName:
        return text
    if suffix == DEFAULT_SUFFIX:
        return text
    return _COMMAND.sub(rf"\1rdd --instance {suffix} ", text)
