# SPDX-License-Identifier: Apache-2.0
"""What every command is made of: flags, help, dispatch, errors, log lines."""
