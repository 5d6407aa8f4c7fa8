"""The exemplar memory M = {(k_i, v_i)} and nearest neighbors in it (sec. 3.2)."""
