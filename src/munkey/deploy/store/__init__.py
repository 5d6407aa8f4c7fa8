"""The durable memory: SQLite holds the truth, memory-mapped matrices the rows; a deleted row is zeroed in place."""
