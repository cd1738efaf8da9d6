# SPDX-License-Identifier: Apache-2.0
"""x-kubernetes-validations: CEL rules in schemas, checked when written and evaluated on objects."""
