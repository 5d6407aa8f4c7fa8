"""The durable memory: a ledger in SQLite, and memory-mapped rows. Deletion zeros a row in place."""
