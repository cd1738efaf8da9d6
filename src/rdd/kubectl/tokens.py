# SPDX-License-Identifier: Apache-2.0
"""`create token`: request a token for a ServiceAccount."""

from rdd.api import names
from rdd.api.errors import ApiError
from rdd.api.types import Object
from rdd.kubectl.errors import KubectlError
from rdd.kubectl.generators import one_name
from rdd.kubectl.printers import output
from rdd.kubectl.session import Session

_KINDS = ("Pod", "Secret", "Node")


def create_token(session: Session) -> None:
    flags = session.flags
    name = one_name(session, "token")
    spec: Object = {}
    if audiences := flags.texts("audience"):
        spec["audiences"] = audiences
    if seconds := flags.seconds("duration"):
        spec["expirationSeconds"] = int(seconds)
    if kind := flags.text("bound-object-kind"):
        if kind not in _KINDS:
            raise KubectlError(
                f"supported --bound-object-kind values are {', '.join(sorted(_KINDS))}"
            )
        bound = {
            "kind": kind,
            "apiVersion": "v1",
            "name": flags.text("bound-object-name"),
            "uid": flags.text("bound-object-uid"),
        }
        spec["boundObjectRef"] = {key: value for key, value in bound.items() if value}
    request = {
        "apiVersion": f"{names.AUTHENTICATION_GROUP}/v1",
        "kind": "TokenRequest",
        "spec": spec,
    }
    path = session.resource("serviceaccounts").path(session.namespace, name, "token")
    try:
        reply: Object = session.api.request("POST", path, body=request)
    except ApiError as error:
        raise KubectlError(f"failed to create token: {error.message}") from None
    if flags.text("output"):
        session.out.write(output.printer(flags)(reply))
    else:
        session.print(str((reply.get("status") or {}).get("token", "")))
