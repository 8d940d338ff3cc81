"""Repair of the log of a DLedger group member: entry headers, ranges from other members, the index, and cuts."""
