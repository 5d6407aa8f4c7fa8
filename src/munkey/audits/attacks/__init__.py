"""One file an attack: each asks for one trace of what was deleted."""
