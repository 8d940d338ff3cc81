"""Messages of a store as files for other programs: JSON lines, CSV, Parquet.

Each piece of the log becomes files of its own (`piece.py`), written below a staging directory wherever the piece is read (`attempt.py`,
`job.py`); the process that runs the job moves the files of one attempt per piece to their place and records what is done
(`destination.py`), so that a stopped export continues with what is missing.
"""
