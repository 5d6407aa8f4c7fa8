"""The readers of data sets, one file each. A new file with a decorated function adds a data set."""
