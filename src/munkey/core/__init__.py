"""Files, randomness, registries, sample ids, messages and devices: independent of all other packages."""
