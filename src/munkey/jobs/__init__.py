"""The jobs of the workflow: one typed function per rule.

Notebooks, tests and debuggers can call the functions, too.
"""
