# SPDX-License-Identifier: Apache-2.0
"""Common parts of writing verbs: dry runs, field managers, validation, the printed line."""

from rdd.api.errors import ApiError
from rdd.api.types import Object
from rdd.base.pflag import Flag
from rdd.kubectl.errors import KubectlError, within
from rdd.kubectl.printers import output
from rdd.kubectl.selection import Ref
from rdd.kubectl.session import Session

DRY_RUN = Flag(
    "dry-run", "none, server (validate only) or client (send nothing)", default="none",
    implied="unchanged",
)  # fmt: skip
VALIDATE = Flag(
    "validate", "unknown and duplicate fields: strict, warn or ignore", default="strict",
    implied="strict",
)  # fmt: skip

DRY_RUN_SUFFIX = {"none": "", "client": " (dry run)", "server": " (server dry run)"}
_VALIDATION = {
    **dict.fromkeys(("strict", "true"), "Strict"),
    "warn": "Warn",
    **dict.fromkeys(("ignore", "false"), "Ignore"),
}


def manager(default: str) -> Flag:
    """Return the flag for the manager of the changed fields."""
    return Flag("field-manager", "name of the manager of the changed fields", default=default)


class Writer:
    """Writes objects and prints the result."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.dry_run = parse_dry_run(session)
        form = session.flags.text("output")
        self._show = output.printer(session.flags) if form else None
        self.is_client_side = self.dry_run == "client"

    @property
    def query(self) -> dict[str, str]:
        """Query parameters of a writing request."""
        flags = self.session.flags
        query = {"dryRun": "All"} if self.dry_run == "server" else {}
        if name := flags.text("field-manager"):
            query["fieldManager"] = name
        if text := flags.text("validate"):
            if text not in _VALIDATION:
                raise KubectlError(
                    f"invalid - validate option {text!r}; must be one of: strict (or true), warn,"
                    " ignore (or false)"
                )
            query["fieldValidation"] = _VALIDATION[text]
        return query

    def create(self, ref: Ref, obj: Object) -> Object:
        """Create an object and return the server's version of it."""
        if self.is_client_side:
            return obj
        path = ref.resource.path(ref.namespace)
        try:
            created: Object = self.session.api.request("POST", path, query=self.query, body=obj)
        except ApiError as error:
            raise from_source(error, "creating", ref) from None
        return created

    def report(self, obj: Object, done: str) -> None:
        """Print the object in the format of `-o`, or a line such as `configmap/a created`."""
        if self._show is not None:
            self.session.out.write(self._show(obj))
        else:
            self.session.print(f"{output.printed_name(obj)} {done}{self.suffix}")

    @property
    def suffix(self) -> str:
        """Suffix of printed lines in a dry run."""
        return DRY_RUN_SUFFIX[self.dry_run]

    @property
    def shows_objects(self) -> bool:
        """`-o` is set."""
        return self._show is not None


def from_source(error: ApiError, doing: str, ref: Ref) -> ApiError:
    """Return the error with the file that caused the request."""
    return within(error, f'error when {doing} "{ref.source}"') if ref.source else error


def parse_dry_run(session: Session) -> str:
    """Return the mode of `--dry-run`: none, client or server."""
    text = session.flags.text("dry-run") or "none"
    if text == "unchanged":
        session.warn("W --dry-run is deprecated and can be replaced with --dry-run=client.")
        return "client"
    if text not in ("none", "server", "client"):
        raise KubectlError(
            f'Invalid dry-run value ({text}). Must be "none", "server", or "client".'
        )
    return text
