# SPDX-License-Identifier: Apache-2.0
"""Paths of OpenAPI documents that belong to no resource: discovery, version and tokens.

Version 3 has a document for each of them, under the name of its path; version 2 lists them
with all others. Groups of custom resources have none, as in Kubernetes.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from rdd.api import mediatypes
from rdd.schema.openapi.paths import META, V2_PREFIX, V3_PREFIX, capital_words, group_tag

_MEDIA = (mediatypes.JSON, mediatypes.YAML, mediatypes.PROTOBUF)


@dataclass(frozen=True, slots=True)
class DocumentedPath:
    """One GET operation."""

    path: str
    description: str
    operation_id: str
    tag: str
    answer: str = ""
    """Name of the definition of the response; empty for a text."""
    media: tuple[str, ...] = _MEDIA

    @property
    def name(self) -> str:
        """The name of its v3 document."""
        return self.path.strip("/")

    def item_v3(self) -> dict[str, Any]:
        """Return the path item for a v3 document."""
        schema = {"$ref": V3_PREFIX + self.answer} if self.answer else {"type": "string"}
        answer = {"description": "OK", "content": {m: {"schema": schema} for m in self.media}}
        return {"get": {**self._common(), "responses": {"200": answer, **_UNAUTHORIZED}}}

    def item_v2(self) -> dict[str, Any]:
        """Return the path item for a v2 document."""
        schema = {"$ref": V2_PREFIX + self.answer} if self.answer else {"type": "string"}
        return {
            "get": {
                **self._common(),
                "consumes": list(_MEDIA if self.media == _MEDIA else (mediatypes.JSON,)),
                "produces": list(self.media),
                "responses": {"200": {"description": "OK", "schema": schema}, **_UNAUTHORIZED},
                "schemes": ["https"],
            }
        }

    def _common(self) -> dict[str, Any]:
        return {
            "tags": [self.tag],
            "description": self.description,
            "operationId": self.operation_id,
        }


_UNAUTHORIZED = {"401": {"description": "Unauthorized"}}
VERSION_INFO = "io.k8s.apimachinery.pkg.version.Info"
VERSION = DocumentedPath(
    "/version/",
    "get the version information for this server",
    "getCodeVersion",
    "version",
    VERSION_INFO,
    (mediatypes.JSON,),
)
_FIXED = (
    DocumentedPath(
        "/.well-known/openid-configuration/",
        "get service account issuer OpenID configuration, also known as the 'OIDC discovery doc'",
        "getServiceAccountIssuerOpenIDConfiguration",
        "WellKnown",
        media=(mediatypes.JSON,),
    ),
    DocumentedPath(
        "/openid/v1/jwks/",
        "get service account issuer OpenID JSON Web Key Set (contains public token verification "
        "keys)",
        "getServiceAccountIssuerOpenIDKeyset",
        "openid",
        media=("application/jwk-set+json",),
    ),
    VERSION,
    DocumentedPath(
        "/api/", "get available API versions", "getCoreAPIVersions", "core", f"{META}.APIVersions"
    ),
    DocumentedPath(
        "/apis/", "get available API versions", "getAPIVersions", "apis", f"{META}.APIGroupList"
    ),
)


def of_server(groups: Iterable[str]) -> list[DocumentedPath]:
    """Return the paths with a document of their own; `groups` are the built-in ones."""
    return [
        *_FIXED,
        *(
            DocumentedPath(
                f"/apis/{group}/",
                "get information of a group",
                f"get{capital_words(group.removesuffix('.k8s.io'))}APIGroup",
                group_tag(group),
                f"{META}.APIGroup",
            )
            for group in groups
            if group
        ),
    ]


def resources_of(group: str, version: str) -> DocumentedPath:
    """Return the path of the resources of a built-in group version, a part of its document."""
    return DocumentedPath(
        f"/apis/{group}/{version}/" if group else f"/api/{version}/",
        "get available resources",
        f"get{capital_words(group.removesuffix('.k8s.io') or 'core')}{capital_words(version)}"
        "APIResources",
        f"{group_tag(group)}_{version}",
        f"{META}.APIResourceList",
    )
