# SPDX-License-Identifier: Apache-2.0
"""The project's own kinds: one typed declaration each, from which everything else is derived.

A kind is a class (`app.App`, `limavm.LimaVM`, …) whose annotated fields declare the content of its
objects. The same declaration is the CustomResourceDefinition that the server validates with
(`crd.definition_of`), the typed view through which controllers read and build objects
(`struct.Struct`), and the reference in docs/kinds.md (`reference.render`). `catalog` lists all
kinds.

The behaviour of a kind is not part of this package; its controller implements it.
"""
