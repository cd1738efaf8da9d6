# SPDX-License-Identifier: Apache-2.0
"""`rdd image rm` and `rdd volume rm`: remove images and volumes from the engine.

Everything is looked up and checked before the question and before the first removal. An
item in use is an error: the deletion of its object would wait until the container is
gone, and then remove it without another question.
"""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from rdd.api import names
from rdd.api.types import Object
from rdd.base.gotext import quote
from rdd.base.sizes import decimal
from rdd.cli.commands.engine.objects import engine_problem, mirrored, short_id
from rdd.cli.framework.confirm import confirm
from rdd.cli.framework.connection import conditions_of, connected, follow
from rdd.cli.framework.errors import TIMED_OUT, CommandError
from rdd.cli.framework.progress import waiting
from rdd.cli.framework.suggestions import did_you_mean
from rdd.cli.framework.types import Call

if TYPE_CHECKING:
    from rdd.client.blocking import Connection

_TIMEOUT_S = 60.0


def run(call: Call) -> int:
    kind = call.path[1]
    find, describe, plural = _KINDS[kind]
    with connected(call, creates=False) as connection:
        if problem := engine_problem(connection):
            raise CommandError(problem)
        objects, containers = mirrored(connection, plural), mirrored(connection, "containers")
        found = {
            obj["metadata"]["name"]: obj for given in call.args for obj in find(given, objects)
        }
        in_use = [text for obj in found.values() for text in _users(kind, obj, objects, containers)]
        if in_use:
            raise CommandError("; ".join(dict.fromkeys(in_use)) + "; nothing was removed")
        confirm(call, ["This removes:", *(f"  {describe(obj)}" for obj in found.values())])
        for obj in found.values():
            with waiting(call, f"removing {describe(obj)}"):
                _remove(connection, plural, obj)
            call.log.info(f"removed {describe(obj)}")
    return 0


def find_images(given: str, images: list[Object]) -> list[Object]:
    """Return the tag, or all tags of the image with this ID or prefix. Raises CommandError."""
    tags = {obj["status"].get("repoTag", ""): obj for obj in images}
    tagged = given if ":" in given.rpartition("/")[2] else f"{given}:latest"
    if given and (found := tags.get(given) or tags.get(tagged)):
        return [found]
    by_id = [
        obj for obj in images if given and short_id(obj["status"]["id"]).startswith(given[:12])
    ]
    by_id = [o for o in by_id if o["status"]["id"].removeprefix("sha256:").startswith(given)]
    if len({obj["status"]["id"] for obj in by_id}) == 1:
        return by_id
    if by_id:
        raise CommandError(f"{quote(given)} is not unique: several images have such an ID")
    raise _unknown("image", given, tags)


def find_volumes(given: str, volumes: list[Object]) -> list[Object]:
    """Return the volume with this name. Raises CommandError."""
    by_name = {obj["status"]["name"]: obj for obj in volumes}
    if given not in by_name:
        raise _unknown("volume", given, by_name)
    return [by_name[given]]


def _unknown(kind: str, given: str, known: dict[str, Object]) -> CommandError:
    hint = did_you_mean(given, known)
    return CommandError(f"no such {kind}: {quote(given)}" + (hint and f"; {hint}"))


def _users(kind: str, obj: Object, objects: list[Object], containers: list[Object]) -> list[str]:
    """Return a text for each container that uses an image or volume."""
    status = obj["status"]
    if kind == "volume":
        users = [c for c in containers if status["name"] in (c["status"].get("volumes") or ())]
    else:
        # Another tag keeps the image: removing this one concerns no container.
        is_last = sum(other["status"]["id"] == status["id"] for other in objects) == 1
        users = [c for c in containers if is_last and c["status"].get("image") == status["id"]]
    title = quote(_title(kind, status))
    return [f"{kind} {title} is used by container {quote(c['status']['name'])}" for c in users]


def _title(kind: str, status: Object) -> str:
    if kind == "volume":
        return str(status["name"])
    return str(status.get("repoTag") or short_id(status["id"]))


def _describe_image(image: Object) -> str:
    status = image["status"]
    return f"image {_title('image', status)} ({decimal(status['size'])})"


def _describe_volume(volume: Object) -> str:
    return f"volume {volume['status']['name']} with its data"


_Find = Callable[[str, list[Object]], list[Object]]
_KINDS: dict[str, tuple[_Find, Callable[[Object], str], str]] = {
    "image": (find_images, _describe_image, "images"),
    "volume": (find_volumes, _describe_volume, "volumes"),
}


def _remove(connection: "Connection", plural: str, obj: Object) -> None:
    metadata = obj["metadata"]
    collection = f"{names.CONTAINERS_API}/namespaces/{metadata['namespace']}/{plural}"
    uid = metadata["uid"]
    connection.request(
        "DELETE", f"{collection}/{metadata['name']}", body={"preconditions": {"uid": uid}}
    )
    deadline = time.monotonic() + _TIMEOUT_S
    for found in follow(connection, collection, metadata["name"], deadline=deadline):
        if found is None or found["metadata"]["uid"] != uid:
            return
        removed = conditions_of(found).get("Removed", {})
        if removed.get("status") == "False":
            raise CommandError(f"not removed yet: {removed['message']}; it goes with its last user")
    raise CommandError(
        f"waiting for the removal of {quote(metadata['name'])}: context deadline exceeded",
        exit_code=TIMED_OUT,
    )
