"""The commit log of a repair: what is wrong with it, what becomes of each record, and the log as it will be."""
