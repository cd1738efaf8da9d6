# SPDX-License-Identifier: Apache-2.0
"""What runs a machine: `host` (no VM at all), `qemu`, `lima`. `protocol` is their contract."""
