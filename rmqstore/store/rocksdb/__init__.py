"""RocksDB databases of a store: their directories, and what the library reports about them."""
