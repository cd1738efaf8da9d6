# SPDX-License-Identifier: Apache-2.0
"""Drivers run machines: `host` (no VM at all), `qemu`, `lima`. `protocol` is their contract."""
