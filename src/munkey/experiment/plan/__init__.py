"""What a configuration consists of, from its parameters alone: cases, files of jobs, audits, tables and figures."""
