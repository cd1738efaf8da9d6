# SPDX-License-Identifier: Apache-2.0
"""Commands for the App: settings, start, stop, status."""
