# SPDX-License-Identifier: Apache-2.0
"""What directories and processes use of this host: disk space and memory."""
