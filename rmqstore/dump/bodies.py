"""Bodies of messages as JSON can hold them: text, hex or base64, decompressed on request."""

from __future__ import annotations

import base64
import io
import zlib
from collections.abc import Iterator

from rmqstore.dump.request import BodyForm
from rmqstore.formats.sysflag import CompressionType, compression_type

LARGEST_BODY = 32 << 20
"""Largest decompressed body in bytes: a body that becomes larger stays compressed. Brokers accept 4 MiB by default."""
_PIECE = 1 << 20
_ZSTANDARD_PIECE = 128
_LARGEST_WINDOW = LARGEST_BODY
"""Largest window of a Zstandard frame in bytes."""


class BodyError(ValueError):
    """A body is not the compressed stream that SYSFLAG says it is."""


def decompress(body: bytes, sys_flag: int) -> bytes:
    """Return the body as the client made it (fact sheet commitlog §2.5); the same bytes if it is not compressed. Raises BodyError."""
    try:
        kind = compression_type(sys_flag)
        if kind is None:
            return body
        stream = {CompressionType.LZ4: _lz4, CompressionType.ZSTD: _zstandard}.get(kind, _zlib)
        return _collected(stream(body))
    except (ValueError, RuntimeError, zlib.error, EOFError) as error:
        raise BodyError(str(error)) from error


def encode(body: bytes, form: BodyForm) -> tuple[str, str]:
    """Return (text, encoding) of a body; text that is not UTF-8 is returned as base64, so that nothing is lost."""
    if form is BodyForm.TEXT:
        try:
            return body.decode("utf-8"), "text"
        except UnicodeDecodeError:
            return base64.b64encode(body).decode("ascii"), "base64"
    if form is BodyForm.HEX:
        return body.hex(), "hex"
    return base64.b64encode(body).decode("ascii"), "base64"


def _zlib(body: bytes) -> Iterator[bytes]:
    stream = zlib.decompressobj()
    while not stream.eof:
        data = stream.decompress(body, _PIECE)
        if not data and not stream.eof:
            raise BodyError("the zlib stream is cut off")
        yield data
        body = stream.unconsumed_tail


def _lz4(body: bytes) -> Iterator[bytes]:
    import lz4.frame

    stream = lz4.frame.LZ4FrameDecompressor()
    while not stream.eof:
        data: bytes = stream.decompress(body, _PIECE)
        if not data and not stream.eof:
            raise BodyError("the LZ4 frame is cut off")
        yield data
        body = b""


def _zstandard(body: bytes) -> Iterator[bytes]:
    import zstandard

    stream = zstandard.ZstdDecompressor(max_window_size=_LARGEST_WINDOW).decompressobj()
    try:
        # In small pieces: four bytes of a hostile frame can expand to 128 KiB.
        for start in range(0, len(body), _ZSTANDARD_PIECE):
            yield stream.decompress(body[start : start + _ZSTANDARD_PIECE])
            if stream.eof:
                return
    except zstandard.ZstdError as error:
        raise BodyError(str(error)) from error
    raise BodyError("the Zstandard frame is cut off")


def _collected(pieces: Iterator[bytes]) -> bytes:
    """Return the pieces as one body. Raises BodyError before they exceed the largest body."""
    collected = io.BytesIO()
    for piece in pieces:
        if collected.tell() + len(piece) > LARGEST_BODY:
            raise BodyError(f"it becomes longer than {LARGEST_BODY} bytes")
        collected.write(piece)
    return collected.getvalue()
