"""RocksDB databases of a store: where they are, and what the library says about them."""
