"""One dataflow over many files, two runners: threads of this process, or Spark.

A job says what there is to read, what is made of each piece and how the pieces come together (`job.py`); a runner decides where that
happens (`local.py`, `spark.py`). Both give the same results in the same order.
"""
