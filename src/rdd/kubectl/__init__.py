# SPDX-License-Identifier: Apache-2.0
"""The built-in kubectl: `rdd ctl` and `rdd kubectl` run it if no real one is installed.

    main.py         from the command line to a verb, from a failure to an exit code
    errors.py       failures in kubectl's wording
    flags.py        global flags and flag parsing
    session.py      one call: flags, streams, kubeconfig, connection, discovery
    kubeconfig.py   which kubeconfig flags and environment select
    selection.py, manifests.py    which objects a command applies to
    writer.py, deletion.py        what writing verbs share
    printers/       output formats
    patches/        patches of client-side apply and edit
    verbs/          one module per sub-command

The client of the Kubernetes API below it is `rdd.client.blocking`. `python -m
rdd.kubectl` runs it on its own.

It is synchronous and imports little, because a user waits for it: `get ns` takes
about 0.1 s in all. Texts, exit codes and requests are kubectl's. Unsupported
commands and flags are rejected by name, so that a script never relies on a flag
that was ignored.
"""
