"""The process from which Spark forks its Python workers: what every worker needs is loaded once, here.

Loading takes half a second, which Spark would spend after Java has started. So on this machine a command starts the process itself
when Java listens (`--wait PATH KIND`, the kind of work), and the one that Spark starts only hands over to it: standard streams,
environment, arguments and directory.
"""

from __future__ import annotations

import gc
import os
import pickle
import select
import socket
import sys

from rmqstore.pipeline.spark.handover import SQL, WAITING

_TAKEN = b"\1"
_LENGTH = 8


def main() -> None:
    """Wait for Spark's process, hand over to the waiting one, or run the daemon of Spark."""
    path = os.environ.get(WAITING)
    if sys.argv[1:2] == ["--wait"]:
        _wait(*sys.argv[2:])
    elif path is None or not _handed_over(path):
        _load(SQL)
        _serve()


def _load(kind: str) -> None:
    # Two processors are busy with three starting processes, so skip garbage collection and load only what jobs often need.
    gc.disable()
    if kind == SQL:
        import pyarrow  # noqa: F401
    import pyspark.daemon
    import pyspark.worker  # noqa: F401

    import rmqstore.pipeline.rebuild.jobs
    import rmqstore.pipeline.spark.runner
    import rmqstore.verify.engine  # noqa: F401
    from rmqstore.scan.machinecode import load

    load(quiet=True)
    # Workers collect garbage after every task, and would scan everything that was loaded each time: 40 ms.
    gc.freeze()
    gc.enable()


def _serve() -> None:
    from pyspark.daemon import manager

    manager()


def _handed_over(path: str) -> bool:
    """Return whether the process at `path` took over and has ended. It does so once; a second daemon that Spark starts runs here."""
    with socket.socket(socket.AF_UNIX) as other:
        try:
            other.connect(path)
            state = pickle.dumps((dict(os.environ), sys.argv[1:], os.getcwd()))  # noqa: PTH109  -- as the other one will set it
            socket.send_fds(other, [len(state).to_bytes(_LENGTH, "big")], [0, 1, 2])
            other.sendall(state)
            if other.recv(len(_TAKEN)) != _TAKEN:
                return False
        except OSError:
            return False
        # Open here, the streams would not end for the other process.
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(nowhere, stream)
        other.recv(1)
    return True


def _wait(path: str, kind: str) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(1)
        _load(kind)
        # Standard input ends with the command.
        if listener.fileno() not in select.select([listener.fileno(), 0], [], [])[0]:
            return
        connection, _ = listener.accept()
    head, streams, _, _ = socket.recv_fds(connection, _LENGTH, 3)
    state = b""
    while len(state) < int.from_bytes(head, "big"):
        state += connection.recv(1 << 16)
    environment, arguments, directory = pickle.loads(state)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv[1:] = arguments
    os.chdir(directory)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    connection.sendall(_TAKEN)
    _serve()


if __name__ == "__main__":
    main()
