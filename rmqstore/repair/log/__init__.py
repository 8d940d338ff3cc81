"""Repair of the commit log: its damage, the disposition of each record, and the log as it will be."""
