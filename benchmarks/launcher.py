"""Runs one command and prints as JSON what it took: `python -S -E launcher.py [--pipe] COMMAND...`.

It is a small process of its own because the peak memory that Linux reports for a child begins with that of the process that started it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time


def run(command: list[str], piped: bool) -> dict[str, object]:
    """Wall and processor seconds, peak resident bytes and exit status; standard output goes away, `piped`: through a pipe to `cat`."""
    reader = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) if piped else None
    # An installed package has its bytecode; a child that may not keep it would compile 200 modules each time.
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    started = time.perf_counter()
    with subprocess.Popen(command, stdout=reader.stdin if reader else subprocess.PIPE, env=variables) as process:
        if reader is not None and reader.stdin is not None:
            reader.stdin.close()
        output = process.stdout.read() if process.stdout else b""
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if reader is not None:
        reader.wait()
    return {
        "seconds": time.perf_counter() - started,
        "processor_seconds": usage.ru_utime + usage.ru_stime,
        "peak_bytes": usage.ru_maxrss * 1024,
        "status": process.returncode,
        "output": output.decode("utf-8", "replace"),
    }


if __name__ == "__main__":
    arguments = sys.argv[1:]
    through_pipe = arguments[:1] == ["--pipe"]
    print(json.dumps(run(arguments[1:] if through_pipe else arguments, through_pipe)))
