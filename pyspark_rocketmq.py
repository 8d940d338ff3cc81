"""Registration of the format `rocketmq`: Spark 4 imports modules whose names begin with `pyspark_`, and takes their `DefaultSource`."""

from rmqstore.pipeline.spark.source import RocketmqSource as DefaultSource

__all__ = ["DefaultSource"]
