"""A store as tables: the rows that `rmqstore dump` shows, in Arrow batches that any reader of Arrow can use.

A table (`table.py`) is a documented schema, the parts it can be read in, and the batches of one part for a selection of columns and rows
(`selection.py`). Parts and selections are values, so a part can be read in any process.
"""
