"""Consume queues at the start of a broker: loaded, recovered, cut, and filled by the dispatch."""
