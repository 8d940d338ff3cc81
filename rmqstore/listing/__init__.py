"""Lists of what a store holds: queues, topics, consumer groups. Nothing between the ends of a queue is read."""
