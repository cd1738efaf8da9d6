# SPDX-License-Identifier: Apache-2.0
"""Objects from arguments, such as `create configmap NAME --from-literal=a=1`."""

from collections.abc import Callable
from typing import NamedTuple

from rdd.api import names
from rdd.api.types import Object
from rdd.base.pflag import Flag
from rdd.kubectl.errors import KubectlError, NoSuchResource, VerbatimError
from rdd.kubectl.session import Session


class Generator(NamedTuple):
    """Creates objects of one kind from arguments."""

    name: str
    usage: str
    summary: str
    make: Callable[[Session], Object]
    flags: tuple[Flag, ...] = ()
    unsupported: tuple[str, ...] = ()
    failure: str = ""  # prefix of the message when the server rejects the object


def find(name: str) -> Generator:
    return next(g for g in ALL if g.name == name)


def one_name(session: Session, command: str, *, more: bool = False) -> str:
    """Return the NAME argument. Raises VerbatimError if there is not exactly one."""
    count = len(session.args)
    if count == 1 or (more and count > 1):
        return session.args[0]
    raise VerbatimError(
        f"error: exactly one NAME is required, got {count}\n"
        f"See 'kubectl create {command} -h' for help and examples"
    )


def _namespace(session: Session) -> Object:
    name = one_name(session, "namespace")
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def _service_account(session: Session) -> Object:
    name = one_name(session, "serviceaccount")
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": _namespaced(session, name),
    }


def _namespaced(session: Session, name: str) -> Object:
    requested = session.flags.text("namespace") or session.config.namespace
    return {"name": name, "namespace": requested} if requested else {"name": name}


def _config_map(session: Session) -> Object:
    from rdd.kubectl.sources import read_sources

    name = one_name(session, "configmap")
    data, binary = read_sources(session).split()
    obj: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": _namespaced(session, name)}
    return {**obj, **({"data": data} if data else {}), **({"binaryData": binary} if binary else {})}


def _generic_secret(session: Session) -> Object:
    from rdd.kubectl.sources import read_sources

    name = one_name(session, "secret generic")
    data = read_sources(session).encoded()
    obj: Object = {"apiVersion": "v1", "kind": "Secret", "metadata": _namespaced(session, name)}
    if data:
        obj["data"] = data
    if session.flags.text("type"):
        obj["type"] = session.flags.text("type")
    return obj


def _tls_secret(session: Session) -> Object:
    from rdd.kubectl.sources import encoded_file

    name = one_name(session, "secret tls")
    certificate, key = session.flags.text("cert"), session.flags.text("key")
    if not certificate or not key:
        raise KubectlError("key and cert must be specified")
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": _namespaced(session, name),
        "type": "kubernetes.io/tls",
        "data": {"tls.crt": encoded_file(certificate), "tls.key": encoded_file(key)},
    }


def _registry_secret(session: Session) -> Object:
    import base64

    from rdd.kubectl.session import compact

    name = one_name(session, "secret docker-registry")
    flags = session.flags
    user, password = flags.text("docker-username"), flags.text("docker-password")
    if not user or not password:
        raise KubectlError(
            "either --from-file or the combination of --docker-username,"
            " --docker-password and --docker-server is required"
        )
    entry = {
        "username": user,
        "password": password,
        "auth": base64.b64encode(f"{user}:{password}".encode()).decode(),
    }
    if flags.text("docker-email"):
        entry["email"] = flags.text("docker-email")
    content = compact({"auths": {flags.text("docker-server"): entry}})
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": _namespaced(session, name),
        "type": "kubernetes.io/dockerconfigjson",
        "data": {".dockerconfigjson": base64.b64encode(content.encode()).decode()},
    }


def _role(session: Session) -> Object:
    name = one_name(session, "role")
    return {
        "apiVersion": f"{names.RBAC_GROUP}/v1",
        "kind": "Role",
        "metadata": _namespaced(session, name),
        "rules": _rules(session),
    }


def _cluster_role(session: Session) -> Object:
    name = one_name(session, "clusterrole")
    obj: Object = {
        "apiVersion": f"{names.RBAC_GROUP}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name},
    }
    aggregated = session.flags.texts("aggregation-rule")
    if aggregated:
        labels = dict(pair.split("=", 1) for pair in aggregated if "=" in pair)
        return {
            **obj,
            "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": labels}]},
            "rules": [],
        }
    return {**obj, "rules": _rules(session)}


def _rules(session: Session) -> list[Object]:
    flags = session.flags
    verbs = list(dict.fromkeys(flags.texts("verb")))
    urls = flags.texts("non-resource-url")
    if not verbs:
        raise KubectlError("at least one verb must be specified")
    if not flags.texts("resource") and not urls:
        raise KubectlError("at least one resource must be specified")
    if "*" in verbs:
        verbs = ["*"]
    groups: dict[str, list[str]] = {}
    for word in dict.fromkeys(flags.texts("resource")):
        plain, slash, subresource = word.partition("/")
        if plain == "*":
            group, plural = "", "*"
        else:
            try:
                resource = session.resource(plain)
            except NoSuchResource as error:
                raise VerbatimError(str(error)) from None
            group, plural = resource.group, resource.plural
        groups.setdefault(group, []).append(f"{plural}{slash}{subresource}")
    names = flags.texts("resource-name")
    rules: list[Object] = [
        {
            "apiGroups": [group],
            "resources": groups[group],
            "verbs": verbs,
            **({"resourceNames": names} if names else {}),
        }
        for group in sorted(groups)
    ]
    return rules + ([{"verbs": verbs, "nonResourceURLs": urls}] if urls else [])


def _role_binding(session: Session) -> Object:
    flags = session.flags
    name = one_name(session, "rolebinding")
    role, cluster_role = flags.text("role"), flags.text("clusterrole")
    if bool(role) == bool(cluster_role):
        raise KubectlError("exactly one of clusterrole or role must be specified")
    return {
        "apiVersion": f"{names.RBAC_GROUP}/v1",
        "kind": "RoleBinding",
        "metadata": _namespaced(session, name),
        **_binding(session, "Role" if role else "ClusterRole", role or cluster_role),
    }


def _cluster_role_binding(session: Session) -> Object:
    name = one_name(session, "clusterrolebinding")
    role = session.flags.text("clusterrole")
    if not role:
        raise KubectlError("clusterrole must be specified")
    return {
        "apiVersion": f"{names.RBAC_GROUP}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        **_binding(session, "ClusterRole", role),
    }


def _binding(session: Session, kind: str, role: str) -> Object:
    flags = session.flags
    subjects: list[Object] = [
        {"kind": "User", "apiGroup": names.RBAC_GROUP, "name": user} for user in flags.texts("user")
    ]
    subjects += [
        {"kind": "Group", "apiGroup": names.RBAC_GROUP, "name": group}
        for group in flags.texts("group")
    ]
    for account in flags.texts("serviceaccount"):
        namespace, colon, name = account.partition(":")
        if not colon or not namespace or not name or ":" in name:
            raise KubectlError("serviceaccount must be <namespace>:<name>")
        subjects.append({"kind": "ServiceAccount", "namespace": namespace, "name": name})
    role_ref = {"apiGroup": names.RBAC_GROUP, "kind": kind, "name": role}
    return {"roleRef": role_ref, "subjects": subjects} if subjects else {"roleRef": role_ref}


def _deployment(session: Session) -> Object:
    flags = session.flags
    name = one_name(session, "deployment", more=session.dash >= 0)
    images = flags.texts("image")
    if not images:
        raise VerbatimError('error: required flag(s) "image" not set')
    command = session.args[session.dash :] if session.dash >= 0 else []
    if len(images) > 1 and command:
        raise KubectlError("cannot specify multiple --image options and command")
    containers: list[Object] = []
    for image in images:
        plain = image.rpartition("/")[2].partition("@")[0].partition(":")[0]
        container: Object = {"name": plain.replace("_", "-"), "image": image, "resources": {}}
        if command:
            container["command"] = command
        containers.append(container)
    if flags.integer("port") > 0:
        containers[0]["ports"] = [{"containerPort": flags.integer("port")}]
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {**_namespaced(session, name), "labels": labels},
        "spec": {
            "replicas": flags.integer("replicas"),
            "selector": {"matchLabels": labels},
            "strategy": {},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}},
        },
    }


_DATA = (
    Flag("from-literal", "KEY=VALUE; may be repeated", "strings"),
    Flag("from-file", "[KEY=]FILE or a directory; may be repeated", "list"),
    Flag("from-env-file", "file of KEY=VALUE lines; may be repeated", "list"),
)
_RULES = (
    Flag("verb", "allowed verbs", "list"),
    Flag("resource", "resources the rule applies to", "list"),
    Flag("resource-name", "names the rule is restricted to; may be repeated", "strings"),
)
_SUBJECTS = (
    Flag("clusterrole", "ClusterRole to grant"),
    Flag("user", "user to bind to; may be repeated", "strings"),
    Flag("group", "group to bind to; may be repeated", "strings"),
    Flag("serviceaccount", "NAMESPACE:NAME to bind to; may be repeated", "strings"),
)

ALL: tuple[Generator, ...] = (
    Generator("namespace", "NAME", "Create a Namespace", _namespace),
    Generator(
        "serviceaccount", "NAME", "Create a ServiceAccount", _service_account,
        failure="failed to create serviceaccount: ",
    ),
    Generator(
        "configmap", "NAME [--from-literal=…]", "Create a ConfigMap", _config_map, flags=_DATA,
        unsupported=("append-hash",), failure="failed to create configmap: ",
    ),
    Generator(
        "secret generic", "NAME [--from-literal=…]", "Create a Secret from data", _generic_secret,
        flags=(*_DATA, Flag("type", "type of the Secret")), unsupported=("append-hash",),
        failure="failed to create secret ",
    ),
    Generator(
        "secret tls", "NAME --cert=FILE --key=FILE", "Create a Secret with a certificate",
        _tls_secret, flags=(Flag("cert", "certificate file"), Flag("key", "key file")),
        unsupported=("append-hash",), failure="failed to create secret ",
    ),
    Generator(
        "secret docker-registry", "NAME --docker-username=… --docker-password=…",
        "Create a Secret for a registry", _registry_secret,
        flags=(
            Flag("docker-email", "e-mail address for the registry"),
            Flag("docker-password", "password for the registry"),
            Flag("docker-server", "registry", default="https://index.docker.io/v1/"),
            Flag("docker-username", "user for the registry"),
        ),
        unsupported=("append-hash", "from-file"), failure="failed to create secret ",
    ),
    Generator("role", "NAME --verb=… --resource=…", "Create a Role", _role, flags=_RULES),
    Generator(
        "clusterrole", "NAME --verb=… --resource=…", "Create a ClusterRole", _cluster_role,
        flags=(
            *_RULES,
            Flag("non-resource-url", "paths that are not resources", "list"),
            Flag("aggregation-rule", "labels of the ClusterRoles to aggregate", "list"),
        ),
    ),
    Generator(
        "rolebinding", "NAME --clusterrole=…|--role=… --user=…", "Create a RoleBinding",
        _role_binding, flags=(*_SUBJECTS, Flag("role", "Role to grant")),
        failure="failed to create rolebinding: ",
    ),
    Generator(
        "clusterrolebinding", "NAME --clusterrole=… --user=…", "Create a ClusterRoleBinding",
        _cluster_role_binding, flags=_SUBJECTS, failure="failed to create clusterrolebinding: ",
    ),
    Generator(
        "deployment", "NAME --image=… [-- COMMAND…]", "Create a Deployment", _deployment,
        flags=(
            Flag("image", "image to run; may be repeated", "list"),
            Flag("port", "container port", "int", default="-1"),
            Flag("replicas", "number of replicas", "int", default="1", short="r"),
        ),
        failure="failed to create deployment: ",
    ),
    Generator(
        "token", "SERVICE_ACCOUNT", "Request a token of a ServiceAccount", lambda _: {},
        flags=(
            Flag("audience", "audience of the token; may be repeated", "strings"),
            Flag("bound-object-kind", "kind of an object that the token is bound to"),
            Flag("bound-object-name", "name of the bound object"),
            Flag("bound-object-uid", "UID of the bound object"),
            Flag("duration", "lifetime of the token", "duration", default="0"),
            Flag("output", "json, yaml, …", short="o"),
        ),
    ),
)  # fmt: skip
