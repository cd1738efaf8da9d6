# SPDX-License-Identifier: Apache-2.0
"""Protobuf messages of engines: those of rdd.grpc, with the failures of this package."""

from rdd.engine.errors import EngineProtocolError
from rdd.grpc import messages
from rdd.grpc.messages import field

__all__ = ["Message", "field"]


class Message(messages.Message):
    """The fields of a message of an engine. Raises EngineProtocolError if it is malformed."""

    __slots__ = ()
    malformed = EngineProtocolError
