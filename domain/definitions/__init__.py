"""Definitions that operators change: consumer groups, and the revision that gateways follow."""
