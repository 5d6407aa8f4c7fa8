"""One unlearning method a file; docs/methods.md lists them, docs/extending.md shows how to add one."""
