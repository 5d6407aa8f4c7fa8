"""Frozen key encoders g_phi (sec. 3.2), one file per family, and the keys that they extract."""
