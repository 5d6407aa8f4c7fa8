"""Unlearning methods, one per file. docs/methods.md lists them; docs/extending.md: adding one."""
