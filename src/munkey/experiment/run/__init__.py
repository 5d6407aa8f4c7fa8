"""The execution of jobs: start, log, record, provenance, and the code that a result depends on."""
