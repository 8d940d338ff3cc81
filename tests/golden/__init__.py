"""Every sample store against what was written into it."""
