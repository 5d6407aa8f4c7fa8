"""Frozen key encoders g_phi (sec. 3.2), a file per family, and extraction of keys."""
