"""Jobs, tables and SQL on Spark."""
