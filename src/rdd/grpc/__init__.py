# SPDX-License-Identifier: Apache-2.0
"""A gRPC client for the few services that rdd calls: containerd and etcd.

`channel` makes unary and streaming calls, `connection` and `headers` are the HTTP/2 below them,
`calls` the state of one call; `messages` reads and writes protobuf by field number, `errors` has
the outcomes. The services need a dozen calls
with stable field numbers, so neither generated code nor a native gRPC library is used
(docs/design/0048-etcd-store.md has the measurements).
"""
