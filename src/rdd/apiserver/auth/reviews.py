# SPDX-License-Identifier: Apache-2.0
"""Reviews: objects that are evaluated on creation and not stored.

`authorization.k8s.io`: SubjectAccessReview, LocalSubjectAccessReview, SelfSubjectAccessReview and
SelfSubjectRulesReview evaluate permissions. `authentication.k8s.io`: TokenReview and
SelfSubjectReview evaluate identities.

Every function takes the decoded object and returns a new one with its status; the given object is
not modified. `REVIEWS` lists the functions by resource.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rdd.api import name_validation, names, timestamps
from rdd.api.errors import BadRequest, Invalid
from rdd.api.fielderrors import (
    MAX_ERRORS,
    FieldError,
    aggregate,
    child,
    forbidden,
    index,
    invalid,
    required,
)
from rdd.api.selectors import parse_field_selector, parse_label_selector
from rdd.api.types import Object
from rdd.apiserver.auth.authentication import Authenticator
from rdd.apiserver.auth.authorizer import AuthorizationAttributes, Authorizer
from rdd.apiserver.auth.jwt import TokenError
from rdd.apiserver.auth.rbac import RbacAuthorizer
from rdd.apiserver.http.request import User

_SPEC_RESOURCE = "spec.resourceAttributes"
_SPEC_NON_RESOURCE = "spec.nonResourceAttributes"


@dataclass(frozen=True, slots=True)
class Reviewer:
    """The dependencies of reviews."""

    authenticator: Authenticator
    authorizer: Authorizer
    rbac: RbacAuthorizer
    """Lists the rules of a user; usually also the authorizer."""
    now: Callable[[], float] = time.time


def subject_access_review(obj: Object, reviewer: Reviewer) -> Object:
    """Evaluate whether a user may perform a request."""
    spec = obj.get("spec") or {}
    errors = [*_attribute_errors(spec), *_subject_errors(spec), *_selector_errors(spec)]
    errors += _metadata_errors(obj, "must be empty", allowed=())
    return _access_result(obj, _reviewed_user(spec), reviewer.authorizer, errors)


def local_subject_access_review(obj: Object, namespace: str, reviewer: Reviewer) -> Object:
    """Evaluate whether a user may perform a request in this namespace."""
    obj = {**obj, "metadata": {"namespace": namespace, **(obj.get("metadata") or {})}}
    spec = obj.get("spec") or {}
    errors = [*_attribute_errors(spec), *_subject_errors(spec), *_selector_errors(spec)]
    errors += _metadata_errors(obj, "must be empty except for namespace", allowed=("namespace",))
    resource = spec.get("resourceAttributes")
    if resource is not None and (resource.get("namespace") or "") != obj["metadata"]["namespace"]:
        field = child(_SPEC_RESOURCE, "namespace")
        value = resource.get("namespace") or ""
        errors.append(invalid(field, value, "must match metadata.namespace"))
    if spec.get("nonResourceAttributes") is not None:
        value = _non_resource_value(spec)
        errors.append(invalid(_SPEC_NON_RESOURCE, value, "disallowed on this kind of request"))
    return _access_result(obj, _reviewed_user(spec), reviewer.authorizer, errors)


def self_subject_access_review(obj: Object, user: User, reviewer: Reviewer) -> Object:
    """Evaluate whether the requesting user may perform a request."""
    spec = obj.get("spec") or {}
    errors = [*_attribute_errors(spec), *_selector_errors(spec)]
    errors += _metadata_errors(obj, "must be empty", allowed=())
    return _access_result(obj, user, reviewer.authorizer, errors)


def self_subject_rules_review(obj: Object, user: User, reviewer: Reviewer) -> Object:
    """List the rules of the requesting user in a namespace."""
    namespace = (obj.get("spec") or {}).get("namespace")
    if not namespace:
        raise BadRequest("no namespace on request")
    rules, errors = reviewer.rbac.rules_for(user, namespace)
    resource_rules, non_resource_rules = [], []
    for policy in (rule.policy for rule in rules):
        verbs = policy.get("verbs") or []
        if policy.get("resources"):
            keys = [k for k in ("apiGroups", "resources", "resourceNames") if policy.get(k)]
            resource_rules.append({"verbs": verbs, **{k: policy[k] for k in keys}})
        if policy.get("nonResourceURLs"):
            urls = policy["nonResourceURLs"]
            non_resource_rules.append({"verbs": verbs, "nonResourceURLs": urls})
    status: Object = {
        "resourceRules": resource_rules,
        "nonResourceRules": non_resource_rules,
        "incomplete": False,
    }
    if errors:
        status["evaluationError"] = aggregate(errors)
    # Kubernetes returns a new object: the spec is not repeated.
    return {**_type(obj), "metadata": {}, "spec": {}, "status": status}


def token_review(obj: Object, reviewer: Reviewer) -> Object:
    """Authenticate a token."""
    spec = obj.get("spec") or {}
    token = spec.get("token")
    if not token:
        raise BadRequest("token is required for TokenReview in authentication")
    try:
        identity = reviewer.authenticator.authenticate_token(token, spec.get("audiences") or ())
    except TokenError as e:
        status: Object = {"user": {}, "error": str(e)}
    else:
        status = {
            "authenticated": True,
            "user": identity.user.to_user_info(),
            "audiences": list(identity.audiences),
        }
    return {**_type(obj), "metadata": _metadata(obj), "spec": spec, "status": status}


def self_subject_review(obj: Object, user: User, reviewer: Reviewer) -> Object:
    """Return the identity of the requesting user."""
    return {
        **_type(obj),
        "metadata": {"creationTimestamp": timestamps.now_text(reviewer.now)},
        "status": {"userInfo": user.to_user_info()},
    }


REVIEWS: dict[tuple[str, str], Callable[[Object, User, str, Reviewer], Object]] = {
    (names.AUTHORIZATION_GROUP, "subjectaccessreviews"): lambda o, u, ns, r: subject_access_review(
        o, r
    ),
    (names.AUTHORIZATION_GROUP, "localsubjectaccessreviews"): (
        lambda o, u, ns, r: local_subject_access_review(o, ns, r)
    ),
    (names.AUTHORIZATION_GROUP, "selfsubjectaccessreviews"): (
        lambda o, u, ns, r: self_subject_access_review(o, u, r)
    ),
    (names.AUTHORIZATION_GROUP, "selfsubjectrulesreviews"): (
        lambda o, u, ns, r: self_subject_rules_review(o, u, r)
    ),
    (names.AUTHENTICATION_GROUP, "tokenreviews"): lambda o, u, ns, r: token_review(o, r),
    (names.AUTHENTICATION_GROUP, "selfsubjectreviews"): lambda o, u, ns, r: self_subject_review(
        o, u, r
    ),
}
"""(group, resource) → function of object, requesting user, namespace of the request, reviewer."""


def _type(obj: Object) -> Object:
    return {"apiVersion": obj["apiVersion"], "kind": obj["kind"]}


def _metadata(obj: Object) -> Object:
    """Return the metadata without empty members (clients send `creationTimestamp: null`)."""
    return {k: v for k, v in (obj.get("metadata") or {}).items() if v}


def _reviewed_user(spec: Object) -> User:
    extra = {k: tuple(v or ()) for k, v in (spec.get("extra") or {}).items()}
    groups = tuple(spec.get("groups") or ())
    return User(spec.get("user") or "", groups, uid=spec.get("uid") or "", extra=extra)


def _access_result(
    obj: Object, user: User, authorizer: Authorizer, errors: Sequence[FieldError]
) -> Object:
    if errors:
        raise _invalid(errors)
    spec = obj["spec"]
    decision = authorizer.authorize(_attributes(user, spec))
    status: Object = {"allowed": decision.allowed}
    if decision.reason:
        status["reason"] = decision.reason
    problems = [decision.error] if decision.error else []
    problems += _selector_problems(spec.get("resourceAttributes") or {})
    if problems:
        status["evaluationError"] = "; ".join(problems)
    return {**_type(obj), "metadata": _metadata(obj), "spec": spec, "status": status}


def _attributes(user: User, spec: Object) -> AuthorizationAttributes:
    resource = spec.get("resourceAttributes")
    if resource is None:
        attributes = spec["nonResourceAttributes"]
        path, verb = attributes.get("path") or "", attributes.get("verb") or ""
        return AuthorizationAttributes(user, verb, is_resource=False, path=path)
    return AuthorizationAttributes(
        user,
        resource.get("verb") or "",
        group=resource.get("group") or "",
        version=resource.get("version") or "*",
        resource=resource.get("resource") or "",
        subresource=resource.get("subresource") or "",
        namespace=resource.get("namespace") or "",
        name=resource.get("name") or "",
        field_selector=(resource.get("fieldSelector") or {}).get("rawSelector") or "",
        label_selector=(resource.get("labelSelector") or {}).get("rawSelector") or "",
    )


def _invalid(errors: Sequence[FieldError]) -> Invalid:
    # Kubernetes omits the kind here, in the message and in the details.
    error = Invalid.of("", names.AUTHORIZATION_GROUP, "", errors)
    if error.details is not None:
        error.details.pop("kind")
    return error


def _non_resource_value(spec: Object) -> Object:
    attributes = spec["nonResourceAttributes"]
    return {"Path": attributes.get("path") or "", "Verb": attributes.get("verb") or ""}


def _attribute_errors(spec: Object) -> list[FieldError]:
    has_resource = spec.get("resourceAttributes") is not None
    has_path = spec.get("nonResourceAttributes") is not None
    if has_resource and has_path:
        detail = "cannot be specified in combination with resourceAttributes"
        return [invalid(_SPEC_NON_RESOURCE, _non_resource_value(spec), detail)]
    if not has_resource and not has_path:
        detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        return [invalid(_SPEC_RESOURCE, None, detail)]
    return []


def _subject_errors(spec: Object) -> list[FieldError]:
    if spec.get("user") or spec.get("groups"):
        return []
    return [invalid("spec.user", "", "at least one of user or group must be specified")]


def _metadata_errors(obj: Object, detail: str, *, allowed: Sequence[str]) -> list[FieldError]:
    metadata = _metadata(obj)
    if all(key == "managedFields" or key in allowed for key in metadata):
        return []
    return [invalid("metadata", metadata, detail)]


def _selector_errors(spec: Object) -> list[FieldError]:
    resource = spec.get("resourceAttributes") or {}
    errors: list[FieldError] = []
    for name, check in (("fieldSelector", _field_errors), ("labelSelector", _label_errors)):
        selector = resource.get(name)
        if selector is None:
            continue
        path = child(_SPEC_RESOURCE, name)
        raw, requirements = selector.get("rawSelector"), selector.get("requirements")
        if raw and requirements:
            detail = "may not specified at the same time as requirements"
            errors.append(invalid(child(path, "rawSelector"), raw, detail))
        if not raw and not requirements:
            detail = f"when {path} is specified, requirements or rawSelector is required"
            errors.append(required(child(path, "requirements"), detail))
        for i, requirement in enumerate(requirements or ()):
            # Thousands of them are nearly always right: paths are made for the others only.
            if check(requirement, ""):
                errors += check(requirement, index(child(path, "requirements"), i))
                if len(errors) > MAX_ERRORS:
                    return errors
    return errors


def _field_errors(requirement: Object, path: str) -> list[FieldError]:
    errors = [] if requirement.get("key") else [required(child(path, "key"), "must be specified")]
    return errors + _operator_errors(requirement, path)


def _label_errors(requirement: Object, path: str) -> list[FieldError]:
    errors = _operator_errors(requirement, path)
    key = requirement.get("key") or ""
    errors += [
        invalid(child(path, "key"), key, e) for e in name_validation.qualified_name_errors(key)
    ]
    for i, value in enumerate(requirement.get("values") or ()):
        field = index(child(path, "values"), i)
        errors += [invalid(field, value, e) for e in name_validation.label_value_errors(value)]
    return errors


def _operator_errors(requirement: Object, path: str) -> list[FieldError]:
    """Return the errors of a requirement; unknown operators of newer clients are accepted."""
    operator, values = requirement.get("operator"), requirement.get("values")
    field = child(path, "values")
    if operator in ("In", "NotIn") and not values:
        return [required(field, "must be specified when `operator` is 'In' or 'NotIn'")]
    if operator in ("Exists", "DoesNotExist") and values:
        detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        return [forbidden(field, detail)]
    return []


def _selector_problems(resource: Object) -> list[str]:
    """Describe the selectors that could not be parsed and are therefore ignored."""
    problems = []
    for name, parse, is_known in (
        ("fieldSelector", parse_field_selector, _is_known_field_requirement),
        ("labelSelector", parse_label_selector, _is_known_label_requirement),
    ):
        selector = resource.get(name) or {}
        requirements = selector.get("requirements") or ()
        parsed = sum(map(is_known, requirements))
        if selector.get("rawSelector"):
            try:
                parse(selector["rawSelector"])
                continue
            except BadRequest:
                parsed = 0
        elif parsed == len(requirements):
            continue
        partially = "partially " if parsed else ""
        problems.append(f"{child(_SPEC_RESOURCE, name)} {partially}ignored due to parse error")
    return problems


def _is_known_field_requirement(requirement: Object) -> bool:
    return requirement.get("operator") in ("In", "NotIn") and len(requirement["values"]) == 1


def _is_known_label_requirement(requirement: Object) -> bool:
    return requirement.get("operator") in ("In", "NotIn", "Exists", "DoesNotExist")
