"""Repair of everything derived from the commit log: queues, index, timer, checkpoint and offsets, in agreement with a planned log."""
