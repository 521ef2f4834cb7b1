# SPDX-License-Identifier: Apache-2.0
"""Values: what a host is, what is said of it, and who owns its CPUs; nothing here touches a system."""
