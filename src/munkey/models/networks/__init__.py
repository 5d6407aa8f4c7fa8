"""Networks from images to logits. Parameters have the same names as in timm, for comparison."""
