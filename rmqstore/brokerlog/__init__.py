"""Reading the log files of a broker against the table of log lines, and finding in a store what the lines name."""
