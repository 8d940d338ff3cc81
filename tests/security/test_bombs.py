"""Bodies that become large when they are decompressed: memory follows the limit, not what a body becomes."""

from __future__ import annotations

import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import lz4.frame
import pytest
import zstandard

from rmqstore.dump import fast
from rmqstore.dump.bodies import LARGEST_BODY, BodyError, decompress
from tests.support.builder import StoreBuilder
from tests.support.cli import rmqstore
from tests.support.waiting import PATIENCE

GIB = 1 << 30
_PIECE = b"a" * (1 << 20)

ZLIB, LZ4, ZSTD = 0x301, 0x101, 0x201


def _zlib(size: int) -> bytes:
    stream = zlib.compressobj(1)
    return b"".join(stream.compress(_PIECE) for _ in range(size >> 20)) + stream.flush()


def _lz4(size: int) -> bytes:
    stream = lz4.frame.LZ4FrameCompressor(block_size=lz4.frame.BLOCKSIZE_MAX4MB)
    return stream.begin() + b"".join(stream.compress(_PIECE) for _ in range(size >> 20)) + stream.flush()


def _zstd(size: int) -> bytes:
    stream = zstandard.ZstdCompressor(level=1).compressobj()
    return b"".join(stream.compress(_PIECE) for _ in range(size >> 20)) + stream.flush()


def _zstd_of_large_window(size: int) -> bytes:
    parameters = zstandard.ZstdCompressionParameters.from_level(1, window_log=27)
    stream = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    return b"".join(stream.compress(_PIECE) for _ in range(size >> 20)) + stream.flush()


KINDS: dict[str, tuple[int, Callable[[int], bytes]]] = {
    "zlib": (ZLIB, _zlib),
    "lz4": (LZ4, _lz4),
    "zstd": (ZSTD, _zstd),
    "zstd with a large window": (ZSTD, _zstd_of_large_window),
}


@pytest.mark.parametrize(("sys_flag", "make"), KINDS.values(), ids=KINDS)
def test_a_body_of_more_than_a_gib(sys_flag: int, make: Callable[[int], bytes], tmp_path: Path) -> None:
    """It is given up with an address space that has room for the limit and little more."""
    (tmp_path / "body").write_bytes(make(GIB + (64 << 20)))
    code = (
        "import resource, sys; from pathlib import Path; import lz4.frame, zstandard\n"
        "from rmqstore.dump.bodies import BodyError, decompress\n"
        "body = Path(sys.argv[1]).read_bytes()\n"
        "used = int(Path('/proc/self/statm').read_text().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (used + (96 << 20),) * 2)\n"
        "try: decompress(body, int(sys.argv[2]))\n"
        "except BodyError: print('given up')\n"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "body", str(sys_flag)], capture_output=True, text=True, timeout=PATIENCE)
    assert done.stdout == "given up\n", done.stderr


@pytest.mark.parametrize(("sys_flag", "make"), list(KINDS.values())[:3], ids=list(KINDS)[:3])
def test_the_limit_itself(sys_flag: int, make: Callable[[int], bytes]) -> None:
    assert decompress(make(LARGEST_BODY), sys_flag) == b"a" * LARGEST_BODY
    with pytest.raises(BodyError, match="becomes longer"):
        decompress(make(LARGEST_BODY + (1 << 20)), sys_flag)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Many small records whose bodies are each as large as may be: together 512 MiB."""
    bodies = [(make(LARGEST_BODY), sys_flag) for sys_flag, make in list(KINDS.values())[:3]]
    builder = StoreBuilder(tmp_path_factory.mktemp("bombs") / "store", log_file_size=4 << 20)
    for number in range(16):
        body, sys_flag = bodies[number % 3]
        builder.message(body=body, sys_flag=sys_flag)
    return builder.build()


def _peak(*words: str | Path) -> int:
    """Return the bytes of memory that a command had at most: VmHWM, because ru_maxrss begins with the memory of the process that forked."""
    code = (
        "import re, sys; from pathlib import Path; from rmqstore.cli import main; status = main(sys.argv[1:]); sys.stdout.flush()\n"
        "sys.stderr.write(re.search(r'VmHWM:\\s+(\\d+) kB', Path('/proc/self/status').read_text())[1]); sys.exit(status)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, words)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    return int(done.stderr.split()[-1]) << 10


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "words",
    [
        ("dump", "{store}", "--format", "json", "--threads", "8"),
        ("dump", "{store}", "--format", "table"),
        ("export", "{store}", "{out}", "--format", "jsonl"),
        ("export", "{store}", "{out}", "--format", "csv"),
        ("export", "{store}", "{out}", "--format", "parquet"),
    ],
    ids=" ".join,
)
def test_commands(words: tuple[str, ...], store: Path, tmp_path: Path) -> None:
    named = [word.format(store=store, out=tmp_path / "out") for word in words]
    body = ["--body", "text", "--decompress"] if words[0] == "dump" else ["--body", "decoded", "--engine", "local", "--threads", "1"]
    assert _peak(*named, *body) < (768 << 20)


def test_what_a_worker_may_pile_up_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    builder = StoreBuilder(tmp_path / "store")
    for number in range(50):
        builder.message(topic=f"T{number % 3}", body=zlib.compress(bytes([65 + number % 26]) * 3000), sys_flag=ZLIB if number % 5 else LZ4)
    root = builder.build()
    words = "dump", root, "--format", "json", "--body", "text", "--decompress"
    whole = rmqstore(*words).out
    assert whole.count("\n") == 50
    for size in (1, 5000, 20_000):
        monkeypatch.setattr(fast, "_PILE", size)
        assert rmqstore(*words).out == whole
        assert rmqstore(*words, "--topic", "T1").out.count("\n") == 17
