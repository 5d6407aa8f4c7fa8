"""The training loop, its checkpoints, and its number formats."""
