"""Data sets: readers, the prepared form on disk, labeled images, augmentation, splits and forget sets."""
