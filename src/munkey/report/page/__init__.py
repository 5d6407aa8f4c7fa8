"""The report and the page of the audits, one file each."""
