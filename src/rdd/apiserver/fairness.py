# SPDX-License-Identifier: Apache-2.0
"""Places for requests in flight, shared fairly between users, with reserves for repairs.

Reading and writing requests have separate places, so that a flood of lists cannot starve writes. A
request without a place gets 429 and Retry-After at once; Kubernetes clients retry automatically.

Requests can stay for long: a write waits up to 30 s for a webhook that hangs. So the places are
divided, for the reasons for which Kubernetes has API priority and fairness:

    shared          a user may hold at most three times as many places as are still free, so
                    the first users of 200 places get at most 150, 38 and 9; a user who comes
                    later always finds some. The rule adapts without knowing the users.
    administrators  members of system:masters get further places when their share is full
    repairs         changes of admission configuration, and reads of health, discovery and
                    admission configuration, by whoever is allowed to: what hangs can be
                    deleted, even by the user whose own writes hang
    system          requests of the daemon itself have as many places again

Watches are not counted here (they have a limit of their own), nor are requests made by admission,
which would otherwise wait for the request that made them.
"""

from typing import Final

from rdd.api import errors, names
from rdd.apiserver.admission.exemption import is_from_daemon
from rdd.apiserver.http.request import Request

MAX_READING = 400
MAX_WRITING = 200
FOR_ADMINISTRATORS = 20
FOR_REPAIRS = 10

_SHARE = 3
"""The places a user may hold per free place. A larger factor favours the first user."""
_SHARED, _ADMINISTRATORS, _REPAIRS, _SYSTEM = range(4)


class _Places:
    """The places of reading or of writing requests."""

    __slots__ = ("_by_user", "_sizes", "taken")

    def __init__(self, shared: int, administrators: int, repairs: int) -> None:
        self._sizes: Final = (shared, administrators, repairs, shared)
        self.taken = [0, 0, 0, 0]
        self._by_user: dict[str, int] = {}

    def enter(self, user: str, *, is_master: bool, is_repair: bool, is_system: bool) -> int:
        """Take a place and return its part; -1 if there is none."""
        if is_system:
            return self._reserved(_SYSTEM)
        own = self._by_user.get(user, 0)
        if own < _SHARE * (self._sizes[_SHARED] - self.taken[_SHARED]):
            self.taken[_SHARED] += 1
            self._by_user[user] = own + 1
            return _SHARED
        part = self._reserved(_ADMINISTRATORS) if is_master else -1
        if part < 0 and is_repair:
            part = self._reserved(_REPAIRS)
        return part

    def _reserved(self, part: int) -> int:
        if self.taken[part] >= self._sizes[part]:
            return -1
        self.taken[part] += 1
        return part

    def leave(self, part: int, user: str) -> None:
        self.taken[part] -= 1
        if part == _SHARED:
            own = self._by_user[user] - 1
            if own:
                self._by_user[user] = own
            else:
                del self._by_user[user]


Place = tuple[_Places, int, str]
"""A taken place: the argument of `leave`."""


class InFlight:
    """Counts the requests in flight."""

    def __init__(
        self,
        *,
        reading: int = MAX_READING,
        writing: int = MAX_WRITING,
        administrators: int = FOR_ADMINISTRATORS,
        repairs: int = FOR_REPAIRS,
    ) -> None:
        self._reading = _Places(reading, administrators, repairs)
        self._writing = _Places(writing, administrators, repairs)
        self.rejected = 0

    @property
    def reading(self) -> int:
        """The number of reading requests in flight."""
        return sum(self._reading.taken)

    @property
    def writing(self) -> int:
        """The number of writing requests in flight."""
        return sum(self._writing.taken)

    def enter(self, request: Request) -> Place:
        """Take a place for a request; raise TooManyRequests if there is none for its user."""
        user, info = request.user, request.info
        places = self._reading if request.method in ("GET", "HEAD") else self._writing
        part = places.enter(
            user.name,
            is_master=user.is_master,
            is_repair=info.group == names.ADMISSION_GROUP or not info.is_resource,
            is_system=request.is_trusted and is_from_daemon(user),
        )
        if part < 0:
            self.rejected += 1
            raise errors.TooManyRequests(
                "Too many requests, please try again later.", retry_after_s=1
            )
        return places, part, user.name

    def leave(self, place: Place) -> None:
        """Give a place back."""
        places, part, user = place
        places.leave(part, user)
