"""Data sets: readers, the prepared form on disk, augmentation, splits and forget sets."""
