"""The jobs of the workflow: one typed function a rule, named like it. A notebook, a test or a debugger can call it."""
