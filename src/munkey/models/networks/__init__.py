"""Networks, from images to logits. Parameters are named as in timm, so that its models check ours."""
