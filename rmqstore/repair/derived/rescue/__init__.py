"""Rescue of configuration files of which neither the file nor its `.bak` can be read."""
