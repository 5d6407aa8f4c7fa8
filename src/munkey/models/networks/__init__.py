"""Networks, from images to logits. Parameters are named as in timm, so that timm's models can verify ours."""
