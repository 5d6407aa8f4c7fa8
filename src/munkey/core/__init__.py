"""Files, randomness, registries, ids, messages, and devices: used by all other packages."""
