# SPDX-License-Identifier: Apache-2.0
"""HTTP/1.1 over httptools (llhttp): the connection, its exchanges, heads of responses."""
