"""One way to read a store: the record at an offset of the log, and the entries of a queue."""
