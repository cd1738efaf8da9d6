# SPDX-License-Identifier: Apache-2.0
"""`rdd service quarantine ls|restore|rm`: damaged objects of the database."""

from rdd.cli.commands.service.calls import service_for, translated
from rdd.cli.framework.types import Call


def run(call: Call) -> int:
    from rdd.daemon.service import quarantine

    verb = call.path[-1]
    with translated():
        if verb == "ls":
            return _list(call)
        (quarantine.restore if verb == "restore" else quarantine.remove)(
            service_for(call), call.args
        )
    return 0


def _list(call: Call) -> int:
    from rdd.daemon.service import quarantine

    found = quarantine.list_all(call.instance)
    if call.flags.text("output") == "json":
        import json

        items = [{"name": q.name, "revision": q.revision, "source": q.source} for q in found]
        call.out.write(json.dumps(items) + "\n")
        return 0
    if not found:
        call.log.info("no object is damaged")
        return 0
    width = max(len("OBJECT"), *(len(q.name) for q in found))
    call.out.write(f"{'OBJECT':{width}}  UNDAMAGED VALUE\n")
    for q in found:
        call.out.write(f"{q.name:{width}}  {q.source or 'none'}\n")
    return 0
