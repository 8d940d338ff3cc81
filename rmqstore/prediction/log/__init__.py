"""The commit log at the start of a broker: loaded, scanned, cut."""
