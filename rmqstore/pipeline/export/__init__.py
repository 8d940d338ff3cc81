"""Messages of a store as files for other programs: JSON lines, CSV, Parquet.

Each piece of the log becomes files of its own (`piece.py`), written below a staging directory wherever the piece is read (`attempt.py`,
`job.py`); whoever runs the job puts the files of one attempt per piece into their place and writes down what is done (`destination.py`),
so that an export that was stopped goes on with what is missing.
"""
