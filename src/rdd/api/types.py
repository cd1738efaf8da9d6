# SPDX-License-Identifier: Apache-2.0
"""Types that every layer shares."""

from typing import Any

Object = dict[str, Any]
"""A Kubernetes object, or a part of one, as decoded JSON."""
