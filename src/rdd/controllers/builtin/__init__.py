# SPDX-License-Identifier: Apache-2.0
"""The controllers of kube-controller-manager for the kinds that this server has.

`manager.BuiltinControllers` runs them; each can run alone. They use the server only through a
`Client`, keep no state that they cannot read again, and wait for events instead of polling,
except for retries.
"""
