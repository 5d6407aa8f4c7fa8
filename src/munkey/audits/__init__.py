"""Audits: how much is left of what was deleted, what could have been found at all, and in which words it is said."""
