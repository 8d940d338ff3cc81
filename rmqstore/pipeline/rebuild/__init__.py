"""The rebuild of queues and index as jobs of the pipeline."""
