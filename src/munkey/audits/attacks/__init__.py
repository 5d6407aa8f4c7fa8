"""Attacks, one per file: each looks for one kind of trace of deleted samples."""
