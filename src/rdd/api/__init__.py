# SPDX-License-Identifier: Apache-2.0
"""The wire vocabulary of the Kubernetes API: pure data and functions, no I/O."""
