# SPDX-License-Identifier: Apache-2.0
"""Impersonation by Impersonate-* headers.

Kubernetes 1.36 has several modes and uses the first one that is allowed. The constrained modes
(`impersonate:user-info`, `impersonate:serviceaccount`, `impersonate:arbitrary-node`) require a
second permission for the request itself (`impersonate-on:<mode>:<verb>`); the last mode is the
unrestricted legacy `impersonate`. If no mode is allowed, the response is the denial of the first
mode tried; the mode that last succeeded for the user is tried first. (The mode for the node of a
service account does not exist here, because there are no nodes.)
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import cast
from urllib.parse import unquote

from rdd.api import name_validation, names
from rdd.api.errors import BadRequest, Forbidden
from rdd.api.fielderrors import FieldError, aggregate, invalid
from rdd.apiserver.auth import identities
from rdd.apiserver.auth.authorizer import AuthorizationAttributes, Authorizer, Decision
from rdd.apiserver.auth.rbac import forbidden_error
from rdd.apiserver.http.request import Headers, User
from rdd.base import gotext

_EXTRA_PREFIX = "impersonate-extra-"
_MANY = 4  # from this many checks on, constrained modes try a single wildcard check first
_MAX_CACHED_USERS = 10_000

_HTTP_PATH = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"
_HTTP_PATH_MATCH = re.compile(_HTTP_PATH)


@dataclass(frozen=True, slots=True)
class _RequestedUser:
    """The user that the headers request, unmodified."""

    name: str
    uid: str
    groups: tuple[str, ...]
    extra: Mapping[str, tuple[str, ...]]

    @property
    def is_name_only(self) -> bool:
        return not (self.uid or self.groups or self.extra)


class Impersonator:
    """Determines the effective user of a request."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer
        self._last_mode: dict[str, str] = {}

    def user(self, headers: Headers, attributes: AuthorizationAttributes) -> User:
        """Return the effective user: the authenticated one unless headers request another.

        `attributes` are those of the request with its authenticated user. Raises Forbidden or
        BadRequest.
        """
        if not is_requested(headers):
            return attributes.user
        wanted = _read(headers)
        if wanted is None:
            return attributes.user
        requestor = attributes.user.name
        modes = _modes(wanted)
        last = self._last_mode.get(requestor)
        if last is not None and last in modes:
            modes.remove(last)
            modes.insert(0, last)
        first: Forbidden | None = None
        for mode in modes:
            try:
                self._check(mode, wanted, attributes)
            except Forbidden as e:
                first = first or e
                continue
            if len(self._last_mode) >= _MAX_CACHED_USERS:
                self._last_mode.clear()
            self._last_mode[requestor] = mode
            return _impersonated(wanted, is_constrained=bool(mode))
        assert first is not None  # the legacy mode always applies
        raise first

    def _check(
        self, mode: str, wanted: _RequestedUser, attributes: AuthorizationAttributes
    ) -> None:
        """Raise Forbidden unless the mode allows it; the empty mode is the legacy one."""
        verb = f"impersonate:{mode}" if mode else "impersonate"
        if mode:
            self._require(replace(attributes, verb=f"impersonate-on:{mode}:{attributes.verb}"))
        # Legacy users and groups are core resources, the rest always belongs to authentication.
        group = names.AUTHENTICATION_GROUP if mode else ""
        as_user = AuthorizationAttributes(
            attributes.user, verb, group=group, version="v1", resource="users", name=wanted.name
        )
        account, node = identities.split_account(wanted.name), identities.node_name(wanted.name)
        if account:
            namespace, name = account
            as_user = replace(as_user, resource="serviceaccounts", namespace=namespace, name=name)
        elif mode and node:
            as_user = replace(as_user, resource="nodes", name=node)
        self._require(as_user)
        other = replace(as_user, group=names.AUTHENTICATION_GROUP, namespace="")
        if wanted.uid:
            self._require(replace(other, resource="uids", name=wanted.uid))
        self._check_groups(mode, wanted.groups, replace(other, group=group, resource="groups"))
        self._check_extra(mode, wanted.extra, replace(other, resource="userextras", name=""))

    def _check_groups(
        self, mode: str, groups: tuple[str, ...], attributes: AuthorizationAttributes
    ) -> None:
        if mode and "" in groups:
            _deny(
                replace(attributes, name=""), "impersonating the empty string group is not allowed"
            )
        if mode and identities.MASTERS in groups:
            _deny(
                replace(attributes, name=identities.MASTERS),
                "impersonating the system:masters group is not allowed",
            )
        if mode and len(groups) >= _MANY:
            decision = self._authorizer.authorize(replace(attributes, name="*"))
            if decision.allowed:
                return
        for group in groups:
            self._require(replace(attributes, name=group))

    def _check_extra(
        self, mode: str, extra: Mapping[str, tuple[str, ...]], attributes: AuthorizationAttributes
    ) -> None:
        if mode and extra:
            why = _extra_error(extra)
            if why:
                _deny(attributes, why)
            if len(extra) >= _MANY or sum(map(len, extra.values())) >= _MANY:
                everything = replace(attributes, subresource="*", name="*")
                if self._authorizer.authorize(everything).allowed:
                    return
        for key, values in extra.items():
            for value in values:
                self._require(replace(attributes, subresource=key, name=value))

    def _require(self, attributes: AuthorizationAttributes) -> None:
        decision = self._authorizer.authorize(attributes)
        if not decision.allowed:
            raise forbidden_error(attributes, decision)


def _deny(attributes: AuthorizationAttributes, why: str) -> None:
    raise forbidden_error(attributes, Decision(False, why))


def is_requested(headers: Headers) -> bool:
    """Return whether the request has an Impersonate-* header."""
    # Every request runs this loop: one character excludes most header names.
    for name in cast("Iterable[str]", headers):
        if name[0] in "iI" and name[:12].lower() == "impersonate-":
            return True
    return False


def _items(headers: Headers) -> Iterable[tuple[str, str]]:
    return headers.items()


def _read(headers: Headers) -> _RequestedUser | None:
    name = uid = ""
    groups: list[str] = []
    extra: dict[str, tuple[str, ...]] = {}
    for header, value in _items(headers):
        key = header.lower()
        if key == "impersonate-user":
            name = name or value
        elif key == "impersonate-uid":
            uid = uid or value
        elif key == "impersonate-group":
            groups.append(value)
        elif key.startswith(_EXTRA_PREFIX):
            extra_key = unquote(key.removeprefix(_EXTRA_PREFIX))
            extra[extra_key] = (*extra.get(extra_key, ()), value)
    wanted = _RequestedUser(name, uid, tuple(groups), extra)
    if name:
        return wanted
    if wanted.is_name_only:
        return None
    raise BadRequest(f"requested {_go_syntax(wanted)} without impersonating a user name")


def _go_syntax(wanted: _RequestedUser) -> str:
    """Return the request as Go prints a struct with %#v."""

    def texts(values: Iterable[str]) -> str:
        return "[]string{" + ", ".join(map(gotext.quote, values)) + "}"

    groups = texts(wanted.groups) if wanted.groups else "[]string(nil)"
    extra = "map[string][]string(nil)"
    if wanted.extra:
        entries = (f"{gotext.quote(k)}:{texts(v)}" for k, v in sorted(wanted.extra.items()))
        extra = "map[string][]string{" + ", ".join(entries) + "}"
    return (
        f'&user.DefaultInfo{{Name:"", UID:{gotext.quote(wanted.uid)}, '
        f"Groups:{groups}, Extra:{extra}}}"
    )


def _modes(wanted: _RequestedUser) -> list[str]:
    """Return the modes that apply to this user in the order of trial; "" is the legacy one."""
    if identities.node_name(wanted.name):
        return ["arbitrary-node", ""] if wanted.is_name_only else [""]
    if identities.split_account(wanted.name):
        return ["serviceaccount", ""] if wanted.is_name_only else [""]
    return ["user-info", ""]


def _impersonated(wanted: _RequestedUser, *, is_constrained: bool) -> User:
    groups = wanted.groups
    account = identities.split_account(wanted.name)
    if account and not groups:
        groups = identities.account_groups(account[0])
    elif is_constrained and identities.node_name(wanted.name):
        groups = (identities.NODES,)
    if wanted.name == identities.ANONYMOUS:
        added = identities.UNAUTHENTICATED
    elif identities.UNAUTHENTICATED in groups:
        added = ""
    else:
        added = identities.AUTHENTICATED
    if added and added not in groups:
        groups = (*groups, added)
    return User(wanted.name, groups, uid=wanted.uid, extra=wanted.extra)


def _extra_error(extra: Mapping[str, tuple[str, ...]]) -> str:
    for key, values in extra.items():
        if not key:
            return "impersonating the empty string key in extra is not allowed"
        errors = _domain_prefixed_path_errors(key)
        if errors:
            text = aggregate([str(e) for e in errors])
            return f"impersonating an invalid key in extra is not allowed: {text}"
        if key != key.lower():
            shown = gotext.quote(key)
            return f"impersonating a non-lowercase key in extra is not allowed: {shown}"
        if "" in values:
            return "impersonating the empty string value in extra is not allowed"
    return ""


def _domain_prefixed_path_errors(text: str) -> list[FieldError]:
    field = "extra.key"
    host, _, path = text.partition("/")
    if not host or not path:
        return [invalid(field, text, 'must be a domain-prefixed path (such as "acme.io/foo")')]
    errors = [invalid(field, host, e) for e in name_validation.dns1123_subdomain_errors(host)]
    if not _HTTP_PATH_MATCH.fullmatch(path):
        errors.append(invalid(field, path, name_validation.regex_error("Invalid path", _HTTP_PATH)))
    return errors
