"""Files, randomness, registries, sample ids, messages and devices: what knows nothing of the rest."""
