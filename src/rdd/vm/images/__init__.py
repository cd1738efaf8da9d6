# SPDX-License-Identifier: Apache-2.0
"""Guest images: downloaded once, cached by digest, shared by all machines.

`cache` stores files by digest, `download` fetches them over HTTP, `expansion` decompresses
them, `fetch` is the entry point of drivers: a location and a digest in, a file out. `local`
finds an image on this host that replaces the one of a template. Runs in the daemon.
"""
