# SPDX-License-Identifier: Apache-2.0
"""What kube-controller-manager does for the kinds that are served here.

`manager.BuiltinControllers` runs them; each can run alone. They speak to the
server through a `Client` only, keep no state but what they can read again, and
wait for events, never for time, unless something failed.
"""
