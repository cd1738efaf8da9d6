# SPDX-License-Identifier: Apache-2.0
"""Guest images: fetched once, kept by content, shared by all machines.

`cache` keeps files under their digest, `download` brings them over HTTP, `expansion` unpacks
them, `fetching` is what drivers call: a location and a digest in, a file out. `local` finds
an image of this machine that takes the place of what a template names. Runs in the daemon.
"""
