# SPDX-License-Identifier: Apache-2.0
"""The controllers of the container engine: its mirror, and requests to it.

engine                    mirrors the engine's containers, images and volumes, and forwards
                          deletions and actions to it
container, image, network, volume
                          the kinds, and requests to create, pull, push, scan, tag, build
requests, request_rules   execution and admission of requests
containernamespace        the kind, and its protection
"""
