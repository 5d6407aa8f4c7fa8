"""How a picture file becomes an array, within limits."""
