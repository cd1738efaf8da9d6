# SPDX-License-Identifier: Apache-2.0
"""`api-resources`: list the resources of the server."""

from rdd.base.pflag import Flag
from rdd.client.resources import ApiResource
from rdd.kubectl.errors import KubectlError
from rdd.kubectl.flags import Verb
from rdd.kubectl.printers.tabwriter import TabWriter
from rdd.kubectl.session import Session

VERB = Verb(
    "api-resources",
    "",
    "List the resources of the server",
    flags=(
        Flag("api-group", "only resources of this group"),
        Flag("categories", "only resources in these categories", "list"),
        Flag("namespaced", "only namespaced resources; false: only others", "bool", default="true"),
        Flag("no-headers", "print no header", "bool"),
        Flag("output", "wide or name", short="o"),
        Flag("sort-by", "name or kind"),
        Flag("verbs", "only resources with all of these verbs", "list"),
    ),
    unsupported=("cached",),
)


def run(session: Session) -> None:
    flags = session.flags
    form, order = flags.text("output"), flags.text("sort-by")
    if session.args:
        raise KubectlError(f"unexpected arguments: [{' '.join(session.args)}]")
    if form not in ("", "wide", "name"):
        raise KubectlError(f"--output {form} is not available")
    if order not in ("", "name", "kind"):
        raise KubectlError("--sort-by accepts only name or kind")
    chosen = [r for r in session.resources.preferred().values() if _is_chosen(session, r)]
    chosen.sort(key=_ORDERS[order])
    if form == "name":
        session.print(*(r.qualified for r in chosen))
        return
    writer = TabWriter()
    is_wide = form == "wide"
    if not flags.truth("no-headers"):
        header = ["NAME", "SHORTNAMES", "APIVERSION", "NAMESPACED", "KIND"]
        writer.line(*header, *(["VERBS", "CATEGORIES"] if is_wide else []))
    for r in chosen:
        cells = [
            r.plural,
            ",".join(r.short_names),
            r.api_version,
            "true" if r.namespaced else "false",
            r.kind,
        ]
        if is_wide:
            cells += [",".join(sorted(r.verbs)), ",".join(r.categories)]
        writer.line(*cells)
    session.out.write(writer.flush())


_ORDERS = {
    "": lambda r: (r.group, r.plural),
    "name": lambda r: (r.plural, r.group),
    "kind": lambda r: (r.kind, r.group),
}


def _is_chosen(session: Session, resource: ApiResource) -> bool:
    flags = session.flags
    if not resource.verbs:
        return False
    if "api-group" in flags.given and resource.group != flags.text("api-group"):
        return False
    if "namespaced" in flags.given and resource.namespaced != flags.truth("namespaced"):
        return False
    has_verbs = set(flags.texts("verbs")) <= set(resource.verbs)
    return has_verbs and set(flags.texts("categories")) <= set(resource.categories)
