# SPDX-License-Identifier: Apache-2.0
"""The endpoints of reviews and token requests, which are evaluated on creation and not stored."""

from rdd.api import errors, names
from rdd.api.types import Object
from rdd.apiserver import offload
from rdd.apiserver.admission.chain import CREATE, AdmissionAttributes
from rdd.apiserver.auth.authorizer import Lister
from rdd.apiserver.auth.reviews import REVIEWS, Reviewer
from rdd.apiserver.auth.tokens import TokenIssuer
from rdd.apiserver.components import Core
from rdd.apiserver.http import bodies, options, responses
from rdd.apiserver.http.request import AnyResponse, Request
from rdd.apiserver.kinds.decoding import TypedDecoder
from rdd.apiserver.resources import Resource, metadata_of
from rdd.apiserver.verbs import metadata_update, writes

_TOKEN_REQUEST = "io.k8s.api.authentication.v1.TokenRequest"


async def review(
    core: Core, request: Request, resource: Resource, *, reviewer: Reviewer
) -> AnyResponse:
    if resource.namespaced and not request.info.namespace:
        raise errors.MethodNotAllowed()
    opts = options.write_options(request, "CreateOptions")
    obj = await offload.run(
        len(request.body),
        bodies.decode_object,
        request,
        resource,
        field_validation=opts.field_validation,
    )
    meta = metadata_of(obj)
    metadata_update.wipe_system_metadata(meta)
    writes.check_namespace(resource, request.info.namespace, meta)
    attributes = _attributes(request, resource, obj, opts)
    await core.admission.mutate(attributes)
    evaluate = REVIEWS[(resource.group, resource.plural)]
    reviewed = evaluate(obj, request.user, request.info.namespace, reviewer)
    await core.admission.validate(attributes)
    return responses.value(request, reviewed, status=201)


def _attributes(
    request: Request,
    resource: Resource,
    obj: Object,
    opts: options.WriteOptions,
    subresource: str = "",
) -> AdmissionAttributes:
    return AdmissionAttributes(
        CREATE,
        resource,
        request,
        namespace=request.info.namespace,
        name=request.info.name,
        object_=obj,
        old_object=None,
        options=opts.to_object("CreateOptions"),
        dry_run=opts.dry_run,
        subresource=subresource,
    )


async def token(
    core: Core, request: Request, resource: Resource, *, issuer: TokenIssuer, lister: Lister
) -> AnyResponse:
    if request.info.verb != "create":
        raise errors.MethodNotAllowed()
    opts = options.write_options(request, "CreateOptions")
    obj = bodies.decode_as(
        request,
        TypedDecoder("TokenRequest", f"{names.AUTHENTICATION_GROUP}/v1", _TOKEN_REQUEST),
        field_validation=opts.field_validation,
    )

    meta = metadata_of(obj)
    metadata_update.wipe_system_metadata(meta)
    writes.check_namespace(resource, request.info.namespace, meta)

    async def validate(filled: Object) -> None:
        await core.admission.validate(_attributes(request, resource, filled, opts, "token"))

    await core.admission.mutate(_attributes(request, resource, obj, opts, "token"))
    info = request.info
    issued = await issuer.token_request(
        obj,
        namespace=info.namespace,
        name=info.name,
        lister=lister,
        warnings=request.warnings,
        validate=validate,
    )
    return responses.value(request, issued, status=201)
