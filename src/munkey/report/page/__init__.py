"""The report, one page."""
