"""Data as people bring them: tables, names of units, copies."""
