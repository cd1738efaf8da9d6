# SPDX-License-Identifier: Apache-2.0
"""image: the Image kind, and requests to pull, push, scan, tag and build images."""

from collections.abc import Callable

from rdd.api.types import Object
from rdd.controllers.containers.build_logs import BuildLogs
from rdd.controllers.containers.image_build import BuildImage, TagImage, check_build
from rdd.controllers.containers.image_scan import ScanImage
from rdd.controllers.containers.request_rules import UniqueSubjectRule, is_unchanged
from rdd.controllers.containers.requests import Executor, RequestReconciler, request_controller
from rdd.controllers.containers.transfers import PullImage, PushImage, RegistryCredentials
from rdd.controllers.environment import ControllerEnvironment
from rdd.engine import Docker
from rdd.engine.references import parse
from rdd.kinds.image import (
    Image,
    ImageBuildRequest,
    ImagePullRequest,
    ImagePushRequest,
    ImageScanRequest,
    ImageTagRequest,
)
from rdd.kinds.kind import Kind
from rdd.runtime import AdmissionRequest, Context, Controller, Webhook, maps, validating


def image(env: ControllerEnvironment) -> Controller:
    """Create the controller of Images and of requests for them."""
    instance, environment = env.instance, env.environment
    logs = BuildLogs()

    def make_reconciler(context: Context) -> RequestReconciler:
        docker = Docker(instance.docker_socket)
        registries = RegistryCredentials(env.home, environment)
        executors: dict[type[Kind], Executor] = {
            ImagePullRequest: PullImage(docker, registries),
            ImagePushRequest: PushImage(context, docker, registries),
            ImageBuildRequest: BuildImage(docker, logs),
            ImageTagRequest: TagImage(context, docker),
            ImageScanRequest: ScanImage(
                context, docker_host=instance.docker_endpoint, environment=environment
            ),
        }
        return RequestReconciler(context, docker, executors)

    return request_controller(
        Image,
        (ImagePullRequest, ImagePushRequest, ImageScanRequest, ImageBuildRequest, ImageTagRequest),
        make_reconciler,
        mirrors=maps(Image, lambda obj: ()),  # for requests that refer to them
        webhooks=_webhooks,
        passthroughs={"build-log": logs.handle},
    )


def _webhooks(context: Context) -> tuple[Webhook, ...]:
    subjects: dict[type[Kind], Callable[[Object], str]] = {
        ImagePullRequest: _normalized_tag,
        ImagePushRequest: _image_ref,
        ImageScanRequest: _image_ref,
        ImageTagRequest: _normalized_tag,
    }
    return (
        validating("imagebuildrequest-validator", ImageBuildRequest, _check_build),
        *(
            validating(
                f"{kind.kind.lower()}-validator",
                kind,
                UniqueSubjectRule(context, kind, subject).check,
            )
            for kind, subject in subjects.items()
        ),
    )


async def _check_build(request: AdmissionRequest[ImageBuildRequest]) -> None:
    if not is_unchanged(request):
        await check_build(request)


def _normalized_tag(obj: Object) -> str:
    return str(parse(obj["spec"]["repoTag"]))


def _image_ref(obj: Object) -> str:
    return f"{obj['metadata']['namespace']}/{obj['spec']['imageRef']}"
