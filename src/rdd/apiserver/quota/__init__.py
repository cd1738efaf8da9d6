# SPDX-License-Identifier: Apache-2.0
"""ResourceQuota: enforcement at admission and the usage in its status."""
