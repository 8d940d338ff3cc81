"""Contents of the RocksDB databases of a store."""
