"""Statistics of whole stores: messages and bytes by topic, queue, day, hour, tag, host, size and compression, and reclaimable bytes.

Each piece of a log becomes one small packet of counts (`job.py`), made by compiled code from the columns (`tally.py`); packets add up
(`counts.py`), and the sums are returned as objects (`result.py`).
"""
