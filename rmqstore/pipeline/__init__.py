"""One dataflow over many files, two runners: threads of this process, or Spark.

A job defines what is read, what is made of each part and how the results are combined (`job.py`); a runner decides where that
happens (`local.py`, `spark.py`). Both give the same results in the same order.
"""
