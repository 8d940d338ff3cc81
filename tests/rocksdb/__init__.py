"""RocksDB databases of stores: damages, what real brokers did to them, and what the program says."""
