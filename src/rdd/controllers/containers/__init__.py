# SPDX-License-Identifier: Apache-2.0
"""The container engine as objects: its mirror, and requests to it.

engine                    mirrors the engine's containers, images and volumes, and carries
                          deletions and actions back to it
container, image, volume  the kinds, and requests to create, pull, push, scan
containernamespace        the kind, and its protection
"""
