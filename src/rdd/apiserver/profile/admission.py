# SPDX-License-Identifier: Apache-2.0
"""Enforces the deployment profile on every write, whoever makes it.

| object | what is refused |
|---|---|
| App | a locked setting with another value, or a start while one has another value |
| LimaVM | a machine, a template, a start, a restart or a reset that the profile does not allow |
| Resource, Checkout, URLMonitor | a source or checksum that is not allowed; a false status |
| requests for images and containers | an image that is not allowed |
| ConfigMap `profile` | every change: it is a copy of the file |

A new App gets the defaults and the locked values that its request leaves out. What became
invalid because the profile changed is not touched: it can be stopped, deleted and corrected, and
its status can be written.

What judges a profile is imported when there is one: most servers have none.

The plugin is the first one after NamespaceLifecycle: mutating webhooks and policies see the
completed App. It validates after them, so nothing they do gets around a lock.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rdd.api import errors, names
from rdd.api.types import Object
from rdd.apiserver.admission.chain import CREATE, UPDATE, AdmissionAttributes
from rdd.apiserver.admission.exemption import is_from_daemon
from rdd.apiserver.resources import ResourceRegistry
from rdd.profiles.current import CurrentProfile

if TYPE_CHECKING:
    from rdd.profiles.rules import Rules

_Key = tuple[str, str]
_APPS: _Key = (names.APP_GROUP, "apps")
_MACHINES: _Key = (names.LIMA_GROUP, "limavms")
_RESOURCES: _Key = (names.RDD_GROUP, "resources")
_MONITORS: _Key = (names.RDD_GROUP, "urlmonitors")
_CHECKOUTS: _Key = (names.RDD_GROUP, "checkouts")
_CONFIG_MAPS: _Key = ("", "configmaps")
_COPY = (names.SYSTEM_NAMESPACE, names.PROFILE_CONFIG_MAP)


class DeploymentProfile:
    """The admission plugin."""

    def __init__(self, current: CurrentProfile, registry: ResourceRegistry) -> None:
        self._current = current
        self._registry = registry
        group = names.CONTAINERS_GROUP
        self._checks: dict[_Key, Callable[[Rules, AdmissionAttributes], str]] = {
            _APPS: self._app,
            _MACHINES: self._machine,
            _RESOURCES: self._resource,
            _CHECKOUTS: self._checkout,
            _MONITORS: self._monitor,
            _CONFIG_MAPS: self._config_map,
            (group, "imagepullrequests"): _pull,
            (group, "containercreaterequests"): _run,
            (group, "imagetagrequests"): _tag,
            (group, "imagebuildrequests"): _build,
        }

    def handles(self, attributes: AdmissionAttributes, *, mutating: bool) -> bool:
        key = (attributes.resource.group, attributes.resource.plural)
        if key not in self._checks:
            return False
        if key == _CONFIG_MAPS:
            if (attributes.namespace, attributes.name) != _COPY:
                return False
        elif attributes.operation not in (CREATE, UPDATE):
            return False
        if mutating and (key != _APPS or attributes.operation != CREATE):
            return False
        return self._current.rules() is not None

    async def mutate(self, attributes: AdmissionAttributes) -> None:
        """Complete a new App with what its request leaves out."""
        from rdd.profiles import settings
        from rdd.profiles.rules import Profile

        rules = self._current.rules()
        if not isinstance(rules, Profile) or attributes.object is None:
            return
        given = _spec_of(_written(attributes.request.body))
        spec = dict(_spec_of(attributes.object))
        locked = [(lock.path, lock.value) for lock in rules.locks]
        filled = []
        for path, value in (*settings.leaves(rules.defaults), *locked):
            if not settings.is_given(given, path):
                settings.put(spec, path, value)
                filled.append(".".join(path))
        attributes.object["spec"] = spec
        if filled:  # so that the history is not read as if the user had chosen these values
            metadata = attributes.object.setdefault("metadata", {})
            metadata["annotations"] = {
                **(metadata.get("annotations") or {}),
                names.FROM_PROFILE: ",".join(filled),
            }

    async def validate(self, attributes: AdmissionAttributes) -> None:
        """Raise Forbidden for what the profile does not allow."""
        rules = self._current.rules()
        if rules is None:  # removed since `handles`
            return
        resource = attributes.resource
        why = self._checks[(resource.group, resource.plural)](rules, attributes)
        if why:
            raise errors.Forbidden.to_object(resource.plural, resource.group, attributes.name, why)

    # -- checks: why a write is refused, or nothing

    def _app(self, rules: "Rules", attributes: AdmissionAttributes) -> str:
        from rdd.profiles.rules import BrokenProfile

        new, old = attributes.object or {}, attributes.old_object
        deviations = rules.app_deviations(new)
        if not deviations:
            return ""
        spec, before = _spec_of(new), _spec_of(old)
        starts = bool(spec.get("running")) and not before.get("running")
        if isinstance(rules, BrokenProfile) or (old is not None and starts):
            return rules.app_problem(new) if starts else ""
        reasons = [
            deviation.reason
            for deviation in deviations
            if old is None or _is_changed(deviation.field, new, old)
        ]
        return "; ".join(reasons)

    def _machine(self, rules: "Rules", attributes: AdmissionAttributes) -> str:
        from rdd.profiles.rules import BrokenProfile

        if attributes.subresource:
            return ""
        new, old = attributes.object or {}, attributes.old_object
        starts = bool(_spec_of(new).get("running")) and (
            not _spec_of(old).get("running")
            or (_is_restart(new, old) and not _is_daemons(attributes))
        )
        app = self._app_of(new, attributes)
        if app is not None and starts and (problem := rules.app_problem(app)):
            return problem
        if old is not None and not starts:
            return ""
        if isinstance(rules, BrokenProfile) and not starts:
            return ""
        # Read once at creation; the controller checks the template again before each start.
        template = _annotations(new).get(names.TEMPLATE) if old is None else None
        return rules.machine_problem(is_apps=app is not None, template=template)

    def _app_of(self, machine: Object, attributes: AdmissionAttributes) -> Object | None:
        """Return the App if a LimaVM is its machine: only by its name and place it is."""
        if attributes.name != names.APP_VM_NAME:
            return None
        resource = self._registry.get(names.APP_GROUP, names.VERSION, "apps")
        entry = resource.cache.get("", names.APP_NAME) if resource is not None else None
        if resource is None or entry is None:
            return None
        app = resource.object(entry)
        owners = (machine.get("metadata") or {}).get("ownerReferences") or ()
        is_owned = any(owner.get("uid") == app["metadata"]["uid"] for owner in owners)
        place = _spec_of(app).get("namespace") or names.DEFAULT_NAMESPACE
        return app if is_owned and place == attributes.namespace else None

    def _resource(self, rules: "Rules", attributes: AdmissionAttributes) -> str:
        new, old = attributes.object or {}, attributes.old_object
        status, before = _status_of(new), _status_of(old)
        if attributes.subresource == "status":
            if status.get("digest") == before.get("digest") or _is_daemons(attributes):
                return ""
            return _only_daemon(rules, "status.digest")
        spec = _spec_of(new)
        if old is not None and spec == _spec_of(old):
            return ""
        problem = rules.source_problem(spec.get("url") or "", spec.get("digest") or "")
        others = (spec.get("checksumURL"), (spec.get("signature") or {}).get("url"))
        problems = (problem, *(rules.sources.url_problem(url) for url in others if url))
        return next(filter(None, problems), "")

    def _monitor(self, rules: "Rules", attributes: AdmissionAttributes) -> str:
        if not _is_new(attributes):
            return ""
        return rules.sources.url_problem(_requested(attributes).get("url") or "")

    def _checkout(self, rules: "Rules", attributes: AdmissionAttributes) -> str:
        if attributes.subresource != "status" or _is_daemons(attributes):
            return ""
        if rules.sources.patterns is None and not rules.sources.has_digests:
            return ""
        new, old = _status_of(attributes.object), _status_of(attributes.old_object)
        for name in ("localPath", "digest"):
            if new.get(name) != old.get(name):
                return _only_daemon(rules, f"status.{name}")
        return ""

    def _config_map(self, rules: "Rules", attributes: AdmissionAttributes) -> str:
        if _is_daemons(attributes):
            return ""
        return f"it is a copy of the deployment profile {rules.path}: change that file"


def _pull(rules: "Rules", attributes: AdmissionAttributes) -> str:
    if not _is_new(attributes):
        return ""
    return rules.pull_problem(_requested(attributes).get("repoTag") or "")


def _run(rules: "Rules", attributes: AdmissionAttributes) -> str:
    if not _is_new(attributes):
        return ""
    return rules.run_problem(_requested(attributes).get("image") or "")


def _tag(rules: "Rules", attributes: AdmissionAttributes) -> str:
    if not _is_new(attributes):
        return ""
    return rules.local_name_problem(_requested(attributes).get("repoTag") or "")


def _build(rules: "Rules", attributes: AdmissionAttributes) -> str:
    if not _is_new(attributes):
        return ""
    tags = _requested(attributes).get("tags") or [""]
    return next(filter(None, map(rules.local_name_problem, tags)), "")


def _is_restart(new: Object, old: Object | None) -> bool:
    """Return whether a restart or a reset of what runs is requested."""
    return any(
        _annotations(new).get(name) not in (None, _annotations(old or {}).get(name))
        for name in (names.RESTART_REQUESTED, names.RESET_REQUESTED)
    )


def _is_new(attributes: AdmissionAttributes) -> bool:
    """Return whether a request is made or changed; one that was accepted may end."""
    if attributes.subresource:
        return False
    return _spec_of(attributes.object) != _spec_of(attributes.old_object)


def _requested(attributes: AdmissionAttributes) -> Object:
    return _spec_of(attributes.object)


def _is_daemons(attributes: AdmissionAttributes) -> bool:
    """Return whether the daemon itself writes, in its process."""
    return attributes.request.is_trusted and is_from_daemon(attributes.user)


def _only_daemon(rules: "Rules", field: str) -> str:
    return f"{field} is written by the control plane only, because of {rules.path}"


def _is_changed(name: str, new: Object, old: Object) -> bool:
    from rdd.profiles import settings

    if name.startswith("status."):
        driver = "virtualMachineType"
        return bool(_status_of(new).get(driver) != _status_of(old).get(driver))
    path = tuple(name.split("."))
    values = settings.value_at(_spec_of(new), path), settings.value_at(_spec_of(old), path)
    mark = names.CPUS_DEFAULTED if path[-1] == "cpus" else names.MEMORY_DEFAULTED
    has_new_mark = path[0] == "virtualMachine" and (
        _annotations(new).get(mark) != _annotations(old).get(mark)
    )
    return has_new_mark or not settings.same(path, *values)


def _annotations(obj: Object) -> Object:
    return (obj.get("metadata") or {}).get("annotations") or {}


def _spec_of(obj: Object | None) -> Object:
    found = (obj or {}).get("spec")
    return found if isinstance(found, dict) else {}


def _status_of(obj: Object | None) -> Object:
    found = (obj or {}).get("status")
    return found if isinstance(found, dict) else {}


def _written(body: bytes) -> Any:
    """Return the object as the client wrote it, before defaults were filled in."""
    from rdd.api.decode import decode_json, decode_yaml

    try:
        return decode_json(body) if body.lstrip()[:1] == b"{" else decode_yaml(body).value
    except errors.ApiError:
        return {}
