# SPDX-License-Identifier: Apache-2.0
"""Machine binding: on a shared store, objects that stand for things of a machine name it.

App, LimaVM, containers, images and volumes are things of one machine. Where several machines share
a store, each such object carries the label `rdd.…/machine`: the server fills in its own machine on
creation, and the label cannot be changed afterwards. The controllers of a machine send its name
with every write (`rdd.runtime.machine_binding`), and a write to an object of another machine is
rejected. The check is part of the write that it concerns, so there is no race.
"""

from rdd.api import errors, names
from rdd.api.types import Object
from rdd.apiserver.admission.chain import CREATE, AdmissionAttributes
from rdd.apiserver.resources import Resource


class MachineBinding:
    """The admission plugin; `machine` is empty for a server that is not bound to one."""

    def __init__(self, machine: str) -> None:
        self._machine = machine

    def handles(self, attributes: AdmissionAttributes, *, mutating: bool) -> bool:
        if not is_bound(attributes.resource):
            return False
        return not mutating or attributes.operation == CREATE

    async def mutate(self, attributes: AdmissionAttributes) -> None:
        """Fill in the machine of a new object."""
        assert attributes.object is not None
        if self._machine and not machine_of(attributes.object):
            metadata = attributes.object.setdefault("metadata", {})
            metadata["labels"] = {
                **(metadata.get("labels") or {}),
                names.MACHINE_LABEL: self._machine,
            }

    async def validate(self, attributes: AdmissionAttributes) -> None:
        """Raise Forbidden for an object without a machine, or of another one."""
        old, new = attributes.old_object, attributes.object
        machine = machine_of(old if old is not None else new)
        if not machine:
            if old is None:
                raise _forbidden(
                    attributes,
                    f'the store is shared: set the label "{names.MACHINE_LABEL}" to the machine '
                    "that the object belongs to",
                )
            return
        if old is not None and new is not None and machine_of(new) != machine:
            raise _forbidden(
                attributes,
                f'the object belongs to the machine "{machine}": the label '
                f'"{names.MACHINE_LABEL}" cannot be changed',
            )
        writer = attributes.request.headers.get(names.MACHINE_HEADER)
        if writer and writer != machine:
            raise _forbidden(
                attributes, f'the object belongs to the machine "{machine}", not to "{writer}"'
            )


def is_bound(resource: Resource) -> bool:
    """Return whether objects of a resource belong to a machine."""
    group = resource.group
    return group in names.MACHINE_GROUPS or (group, resource.plural) in names.MACHINE_RESOURCES


def machine_of(obj: Object | None) -> str:
    """Return the machine of an object, empty if it names none."""
    labels = ((obj or {}).get("metadata") or {}).get("labels") or {}
    return str(labels.get(names.MACHINE_LABEL) or "")


def _forbidden(attributes: AdmissionAttributes, why: str) -> errors.Forbidden:
    resource = attributes.resource
    return errors.Forbidden.to_object(resource.plural, resource.group, attributes.name, why)
