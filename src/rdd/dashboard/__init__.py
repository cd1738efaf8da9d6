# SPDX-License-Identifier: Apache-2.0
"""The dashboard in the browser: its own listener, sessions, pages and the multiplexed WebSocket.

docs/dashboard-protocol.md is the contract with the page.

listener        the sockets; loads the rest with the first connection
site            which path is served by what; checks of Host and Origin
assets, pages   files of the page, and small pages without one
sessions        login links, sessions, proofs and tickets; session_file keeps sessions on disk
handshake       the endpoints of a session; key_agreement: the key of one, in a process of its own
api             /k8s: the API with the identity of a session
socket          /ws; watching, container_stats and host_stats are its subscriptions
"""
