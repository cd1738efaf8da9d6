# SPDX-License-Identifier: Apache-2.0
"""An HTTP server: HTTP/1.1, HTTP/2 and WebSocket, without any knowledge of what it serves.

server      listens, selects the protocol of a connection, drains at the end
exchange    one request and its response: what handlers use
body        the body of a request, read after the decision to accept it
headers     case-insensitive headers; rules for values
responses   complete responses of simple handlers
websocket   RFC 6455 on an upgraded exchange
h1          HTTP/1.1
"""
