"""A store as tables: what lies in each, row for row as `rmqstore dump` shows it, in Arrow batches that any reader of Arrow can take.

A table (`table.py`) is a documented schema, the parts it can be read in, and the batches of one part for a selection of columns and rows
(`selection.py`). Parts and selections are values, so a part is read wherever somebody carries it.
"""
