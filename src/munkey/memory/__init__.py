"""The exemplar memory M = {(k_i, v_i)} and its nearest-neighbor search (sec. 3.2)."""
