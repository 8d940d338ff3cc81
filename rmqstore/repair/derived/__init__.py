"""What is derived from the commit log: queues, index, timer, checkpoint and offsets, in agreement with a planned log."""
