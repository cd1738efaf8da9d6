# SPDX-License-Identifier: Apache-2.0
"""Image: an image of the engine; and requests to pull, push, scan, tag and build one."""

from collections.abc import Mapping, Sequence

from rdd.api import names
from rdd.kinds import constraints
from rdd.kinds.conditions import BY_TYPE, Condition
from rdd.kinds.kind import Column, Kind
from rdd.kinds.struct import UNSET, Struct, field

_OF_CONTROLLER = {names.CONTROLLER: "image"}
_OUTCOME = "The result of the request: Complete or Failed."
_RESULT = "The result of the request."


class ImageStatus(Struct):
    """The image as the engine describes it."""

    namespace: str = field("Namespace of the image in the engine.")
    id: str = field("ID of the image.")
    repo_tag: str = field("Repository and tag. Absent for an image without a tag.", default=UNSET)
    repo_digests: Sequence[str] = field("Repositories with digests.", default=UNSET)
    architecture: str = field("The processor architecture it is built for.")
    os: str = field("The operating system it is built for.")
    size: int = field("Size in bytes.", schema=constraints.INT64)
    readable_size: str = field("Size in a readable unit, such as 4.2 MB.", default=UNSET)
    created_at: str = field("When it was built.", default=UNSET, schema=constraints.DATE_TIME)
    labels: Mapping[str, str] = field("Labels of the image.", default=UNSET)
    conditions: Sequence[Condition] = field(
        "The state of the image: Removed, with the cause of a failed removal.",
        default=UNSET,
        schema=BY_TYPE,
    )


class Image(
    Kind,
    group=names.CONTAINERS_GROUP,
    categories=("all",),
    columns=(
        Column("Tag", "string", ".status.repoTag"),
        Column("Created", "date", ".status.createdAt"),
        Column("Size", "integer", ".status.size", "byte"),
        Column("Readable-Size", "string", ".status.readableSize"),
        Column("Image-ID", "string", ".status.id", is_wide=True),
        Column("Platform", "string", ".status.architecture", is_wide=True),
    ),
    selectable=(".status.namespace", ".status.id", ".status.repoTag"),
):
    """A tag of an image of the engine. Deleting it removes the tag."""

    status: ImageStatus = field("The image as the engine describes it.", default=UNSET)


class RequestStatus(Struct):
    """The result of a request."""

    conditions: Sequence[Condition] = field(_OUTCOME, default=UNSET, schema=BY_TYPE)


class TransferProgress(Struct):
    """The progress of a transfer."""

    current: int = field("Bytes transferred.", default=UNSET, schema=constraints.INT64)
    total: int = field(
        "Bytes to transfer, as far as known.",
        default=UNSET,
        schema=constraints.INT64,
    )
    layers: int = field("Layers of the image, as far as known.", default=UNSET)
    layers_done: int = field("Layers that are complete.", default=UNSET)
    message: str = field("The last message of the engine.", default=UNSET)


class TransferStatus(RequestStatus):
    """The result of a request to pull or push."""

    progress: TransferProgress = field("The progress of the transfer.", default=UNSET)


class ImagePullSpec(Struct):
    """The image to pull."""

    repo_tag: str = field("Repository and tag to pull.")
    namespace: str = field("Namespace in the engine to pull into.", default=UNSET)


class ImagePullRequest(
    Kind, group=names.CONTAINERS_GROUP, selectable=(".spec.namespace",), annotations=_OF_CONTROLLER
):
    """A request to pull an image from its registry."""

    spec: ImagePullSpec = field("The image to pull.")
    status: TransferStatus = field(_RESULT, default=UNSET)


class ImagePushSpec(Struct):
    """The image to push."""

    image_ref: str = field("Name of an Image in the same namespace.")


class ImagePushRequest(Kind, group=names.CONTAINERS_GROUP, annotations=_OF_CONTROLLER):
    """A request to push an image to its registry."""

    spec: ImagePushSpec = field("The image to push.")
    status: TransferStatus = field(_RESULT, default=UNSET)


class ImageScanSpec(Struct):
    """The image to scan."""

    image_ref: str = field("Name of an Image in the same namespace.")


class ImageScanStatus(RequestStatus):
    """The result of the request."""

    result: str = field("The report of the scanner, as JSON.", default=UNSET)


class ImageScanRequest(Kind, group=names.CONTAINERS_GROUP, annotations=_OF_CONTROLLER):
    """A request to scan an image for known vulnerabilities."""

    spec: ImageScanSpec = field("The image to scan.")
    status: ImageScanStatus = field(_RESULT, default=UNSET)


class ImageTagSpec(Struct):
    """The tag to set."""

    image_ref: str = field("Name of an Image in the same namespace.")
    repo_tag: str = field("Repository and tag that the image gets in addition.")


class ImageTagRequest(Kind, group=names.CONTAINERS_GROUP, annotations=_OF_CONTROLLER):
    """A request to give an image a further tag."""

    spec: ImageTagSpec = field("The tag to set.")
    status: RequestStatus = field(_RESULT, default=UNSET)


class ImageBuildSpec(Struct):
    """What to build."""

    context: str = field(
        "A folder on this machine (an absolute path), or the URL of a Git repository.",
        schema={"minLength": 1, "maxLength": 4096},
    )
    tags: Sequence[str] = field(
        "Repositories and tags of the image.", default=UNSET, schema={"maxItems": 32}
    )
    dockerfile: str = field(
        "Path of the Dockerfile in the context. Without it, Dockerfile.", default=UNSET
    )
    target: str = field("The stage to build. Without it, the last one.", default=UNSET)
    args: Mapping[str, str] = field("Values of build arguments.", default=UNSET)
    no_cache: bool = field("Whether to ignore the build cache.", default=UNSET)
    pull: bool = field("Whether to pull newer base images.", default=UNSET)


class BuildProgress(Struct):
    """The progress of a build."""

    step: int = field("The present step.", default=UNSET, schema=constraints.INT32)
    steps: int = field("The number of steps.", default=UNSET, schema=constraints.INT32)
    message: str = field("The last line of output.", default=UNSET)


class ImageBuildStatus(RequestStatus):
    """The result of the request."""

    image_id: str = field("ID of the image, once it is built.", default=UNSET)
    progress: BuildProgress = field("The progress of the build.", default=UNSET)


class ImageBuildRequest(Kind, group=names.CONTAINERS_GROUP, annotations=_OF_CONTROLLER):
    """A request to build an image. Deleting it cancels the build."""

    spec: ImageBuildSpec = field("What to build.")
    status: ImageBuildStatus = field(_RESULT, default=UNSET)
