"""The plan of a configuration, computed from its parameters: cases, input files, audits, tables and figures."""
