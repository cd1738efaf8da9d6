# SPDX-License-Identifier: Apache-2.0
"""Deployment profiles: defaults and locks that an administrator or the user gives an instance.

One file applies to an instance, the first that exists of (`places.py`):

    system directory   rancher-desktop-<instance>.yaml
    system directory   rancher-desktop-2.yaml, so that no other instance gets around a lock
    user's directory   rancher-desktop-<instance>.yaml

Nothing is merged. `reading.py` reads it, `schema.py` has its fields, `parsing.py` reports every
mistake with file and line. The result is a `Rules` (`rules.py`): a `Profile`, or a
`BrokenProfile` that refuses everything a lock could forbid, because nothing shows which locks
were meant. `current.py` reads the file again when it has changed.

The package decides and changes nothing: admission in the API server, the controllers and
downloads ask it. Without a profile a question costs two calls of lstat.
"""
