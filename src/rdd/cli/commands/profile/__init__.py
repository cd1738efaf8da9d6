# SPDX-License-Identifier: Apache-2.0
"""`rdd profile`: the deployment profile of the instance."""
