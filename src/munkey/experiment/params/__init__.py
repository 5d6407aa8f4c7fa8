"""The parameters: their typed form, their check with every fault in words, overlays, and what they name outside."""
