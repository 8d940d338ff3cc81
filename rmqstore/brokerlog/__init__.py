"""Matching the log files of a broker with the table of log lines, and looking up in a store what the lines name."""
