"""Queues in RocksDB: databases that leave the store, and new ones."""
