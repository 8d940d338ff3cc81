"""One way to read a store: the record at an offset of the log, the entries of a queue, the index entries of a key."""
