# SPDX-License-Identifier: Apache-2.0
"""The toolbox of an instance: versioned programs that rdd installs on request.

`catalogue` describes what can be fetched, `unpacking` takes programs out of archives,
`installation` puts them into the directory of an instance. It does not depend on Kubernetes and
fetches nothing itself.
"""
