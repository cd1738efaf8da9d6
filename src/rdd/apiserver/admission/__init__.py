# SPDX-License-Identifier: Apache-2.0
"""Admission: plugins that modify or reject a write after authorisation.

`chain` is their contract. `rdd.apiserver.admission_plugins` lists all of them, in their order.
"""
