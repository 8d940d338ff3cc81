"""Write docs/doctor.svg, the picture of a terminal in the README: `python docs/generate_picture.py`."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "docs" / "doctor.svg"
STORE = "sample-stores/5.3.3-plain-crash/store"
COMMAND = ("rmqstore", "doctor", STORE, "--broker-version", "5.3.3")
_WIDTH = 100
_LINES = 16
_FRAME = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img"><title>rmqstore doctor</title>
<style>{styles} .{unique_id}-matrix {{ font-family: ui-monospace, Consolas, monospace; font-size: {char_height}px;
line-height: {line_height}px; }}</style>
<defs><clipPath id="{unique_id}-clip-terminal"><rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/></clipPath>
{lines}</defs>
{chrome}<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">{backgrounds}
<g class="{unique_id}-matrix">{matrix}</g></g></svg>
"""


def picture() -> str:
    """Return the picture of the first lines that the command prints. Raises CalledProcessError for another status than 0 and 1."""
    program = [sys.executable, "-P", "-c", "import sys; from rmqstore.cli import main; sys.exit(main())"]
    environment = {**os.environ, "COLUMNS": str(_WIDTH)}
    done = subprocess.run([*program, *COMMAND[1:], "--color", "always"], cwd=ROOT, env=environment, capture_output=True, text=True)
    if done.returncode not in (0, 1):
        done.check_returncode()
    console = Console(record=True, width=_WIDTH, file=io.StringIO(), force_terminal=True, color_system="standard")
    console.print(Text("$ " + " ".join(COMMAND)))
    for line in done.stdout.splitlines()[:_LINES]:
        console.print(Text.from_ansi(line), soft_wrap=True)
    return console.export_svg(title="", code_format=_FRAME, unique_id="terminal")


if __name__ == "__main__":
    TARGET.write_text(picture(), encoding="utf-8")
