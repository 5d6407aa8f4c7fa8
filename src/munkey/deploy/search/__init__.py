"""Search over the durable memory: exact, or approximate from a certain size; what is deleted never answers."""
