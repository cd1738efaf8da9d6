# SPDX-License-Identifier: Apache-2.0
"""Resource: a file that can be fetched. Checkout: a request for it."""

from collections.abc import Sequence
from typing import Literal

from rdd.api import names
from rdd.kinds import constraints
from rdd.kinds.conditions import BY_TYPE, Condition
from rdd.kinds.kind import Column, Kind
from rdd.kinds.struct import UNSET, Struct, field

_OF_CONTROLLER = {names.CONTROLLER: "resource"}
_DIGEST = {"pattern": r"^(sha256:[0-9a-fA-F]{64}|sha384:[0-9a-fA-F]{96}|sha512:[0-9a-fA-F]{128})$"}
_HAS_CHECKSUM = constraints.rules(
    (
        "has(self.digest) || has(self.checksumURL)",
        "a digest or a checksumURL is required: files without a checksum are not fetched",
    ),
    (
        "!has(self.signature) || self.signature.of != 'checksums' || "
        "(has(self.checksumURL) && !has(self.digest))",
        "a signature of the checksums needs a checksumURL and no digest",
    ),
    (
        "!has(self.signature) || has(self.signature.key) || has(self.signature.keyURL)",
        "a signature needs a key or a keyURL",
    ),
    (
        "has(self.signature) == has(oldSelf.signature) && "
        "(!has(self.signature) || self.signature == oldSelf.signature)",
        "the signature of a Resource cannot change: its digest may be pinned already",
    ),
)


class ResourceSignature(Struct):
    """A detached signature of the publisher."""

    url: str = field(
        "Where the publisher offers the signature.", schema={"pattern": r"^https?://.+"}
    )
    key: str = field(
        "The public key: PEM (Ed25519 or ECDSA P-256), minisign, or armoured OpenPGP.",
        default=UNSET,
        schema={"minLength": 40, "maxLength": 262144},
    )
    key_url: str = field(
        "Where the publisher offers the public key. The first one that verifies a signature "
        "is kept for all later ones.",
        name="keyURL",
        default=UNSET,
        schema={"pattern": r"^https?://.+"},
    )
    signed: Literal["file", "checksums"] = field(
        "What is signed: the file, or the file of checksums.", default="file", name="of"
    )


class ResourceSpec(Struct):
    """The file and how it is verified."""

    url: str = field(
        "Where the publisher offers the file.",
        schema={"pattern": r"^(https?|file)://.+"},
    )
    digest: str = field("Digest of the content, such as sha256:… .", default=UNSET, schema=_DIGEST)
    checksum_url: str = field(
        "The publisher's file of checksums that lists it. Read at the first fetch; "
        "the digest is then kept in the status.",
        name="checksumURL",
        default=UNSET,
        schema={"pattern": r"^https?://.+"},
    )
    signature: ResourceSignature | None = field(
        "A signature that is verified in addition to the checksum.", default=None
    )
    category: str = field(
        "What sort of file it is, such as k3s, so that programs can list all of a sort.",
        default=UNSET,
    )


class ResourceStatus(Struct):
    """What is known of the file."""

    status: str = field(
        "Whether it is cached, or only available.",
        default=UNSET,
        schema={"enum": ["available", "cached"]},
    )
    digest: str = field("Digest by which it is verified.", default=UNSET)
    size: int = field("Size in bytes, once cached.", default=UNSET, schema=constraints.INT64)


class Resource(
    Kind,
    group=names.RDD_GROUP,
    namespaced=False,
    columns=(
        Column("Category", "string", ".spec.category"),
        Column("Status", "string", ".status.status"),
        Column("Size", "integer", ".status.size", "byte"),
        Column("URL", "string", ".spec.url", is_wide=True),
    ),
    selectable=(".spec.category", ".status.status"),
    annotations=_OF_CONTROLLER,
):
    """A file that can be fetched: a disk image, a program, an archive."""

    spec: ResourceSpec = field("The file and how it is verified.", schema=_HAS_CHECKSUM)
    status: ResourceStatus = field("What is known of the file.", default=UNSET)


class CheckoutSpec(Struct):
    """The file that is needed and where."""

    resource: str = field("Name of the Resource.")
    destination: str = field(
        "Absolute path of the file to create. Without one, the path in the cache is used.",
        default=UNSET,
        schema={"pattern": r"^/.*[^/]$"},
    )
    readonly: bool = field(
        "The file is only read, so it may share storage with the cache. Required without a "
        "destination.",
        default=UNSET,
    )
    executable: bool = field("The file is a program.", default=UNSET)


class CheckoutStatus(Struct):
    """The progress and the result."""

    local_path: str = field("Path of the complete file.", default=UNSET)
    digest: str = field("Digest of the file.", default=UNSET)
    progress: str = field("What is being done, as text.", default=UNSET)
    fetched_bytes: int = field("Bytes fetched.", default=UNSET, schema=constraints.INT64)
    total_bytes: int = field(
        "Bytes to fetch, as far as known.", default=UNSET, schema=constraints.INT64
    )
    bytes_per_second: int = field("Rate of the fetch.", default=UNSET, schema=constraints.INT64)
    seconds_left: int = field("Estimated time left.", default=UNSET)
    conditions: Sequence[Condition] = field(
        "Whether the file is there: Ready, with the cause of a failure.",
        default=UNSET,
        schema=BY_TYPE,
    )


class Checkout(
    Kind,
    group=names.RDD_GROUP,
    columns=(
        Column("Resource", "string", ".spec.resource"),
        Column("Ready", "string", '.status.conditions[?(@.type=="Ready")].status'),
        Column("Progress", "string", ".status.progress"),
        Column("Path", "string", ".status.localPath", is_wide=True),
    ),
    annotations=_OF_CONTROLLER,
):
    """A request for the file of a Resource. Deleting it cancels the fetch."""

    spec: CheckoutSpec = field(
        "The file that is needed and where. It cannot change.",
        schema=constraints.rules(
            ("self == oldSelf", "a Checkout cannot change; create another one"),
            (
                "has(self.destination) || (has(self.readonly) && self.readonly)",
                "a Checkout without a destination must be readonly: it is the file of the cache",
            ),
            (
                "!has(self.executable) || !self.executable || has(self.destination)",
                "an executable file needs a destination: files of the cache are not executable",
            ),
        ),
    )
    status: CheckoutStatus = field("The progress and the result.", default=UNSET)
