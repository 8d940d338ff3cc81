"""The checks of verification that look at files around the records: layout, checkpoint, surroundings, timer, configuration."""
