# SPDX-License-Identifier: Apache-2.0
"""An operator in one small package: what it is about, what it does, how it runs."""
