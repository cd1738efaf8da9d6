# SPDX-License-Identifier: Apache-2.0
"""The built-in kubectl: what `rdd ctl` and `rdd kubectl` use when no real one is installed.

    entry.py       which client runs: the real kubectl or this one
    main.py        from words to a verb, from a failure to its text and exit code
    flags.py       flags as kubectl parses them
    session.py     one call: flags, streams, kubeconfig, connection, discovery
    kubeconfig.py, connection.py, discovery.py    the way to a server
    selection.py, manifests.py                    which objects a command is about
    output.py, tables.py, templates.py, …         how they are shown
    verbs/         one file per sub-command

It is synchronous and imports little, because a person waits for it: `get ns`
takes about 0.1 s in all. Texts, exit codes and requests are kubectl's; what it
cannot do it refuses by name, so that a script never believes in a flag that
was ignored.
"""
