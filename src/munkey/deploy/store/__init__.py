"""The durable memory: a ledger in SQLite, and memory-mapped rows that deletion zeros in place."""
