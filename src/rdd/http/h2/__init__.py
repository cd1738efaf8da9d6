# SPDX-License-Identifier: Apache-2.0
"""HTTP/2 (RFC 9113): frames, heads, flow control, streams and the connection."""
