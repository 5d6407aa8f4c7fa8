"""Unlearning methods, one per file.

docs/methods.md lists them, and docs/extending.md shows how to add one.
"""
