"""MUNKEY: Machine UNlearning via KEY deletion, its baselines, oracles, metrics and tables."""
