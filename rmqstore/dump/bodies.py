"""Bodies of messages as JSON can hold them: text, hex or base64, decompressed on request."""

from __future__ import annotations

import base64
import zlib

from rmqstore.dump.request import BodyForm
from rmqstore.formats.sysflag import CompressionType, compression_type

# A damaged or hostile body must not fill the memory; brokers accept 4 MiB by default.
LARGEST_BODY = 256 * 1024 * 1024
_ZSTANDARD_PIECE = 1024


class BodyError(ValueError):
    """A body is not the compressed stream that SYSFLAG says it is."""


def decompress(body: bytes, sys_flag: int) -> bytes:
    """The body as the client made it (fact sheet commitlog §2.5); the same bytes when it is not compressed. Raises BodyError."""
    try:
        kind = compression_type(sys_flag)
        if kind is None:
            return body
        if kind is CompressionType.LZ4:
            return _lz4(body)
        if kind is CompressionType.ZSTD:
            return _zstandard(body)
        return _zlib(body)
    except (ValueError, RuntimeError, zlib.error, EOFError) as error:
        raise BodyError(str(error)) from error


def encode(body: bytes, form: BodyForm) -> tuple[str, str]:
    """(text, encoding) of a body; text that is not UTF-8 is given as base64, so that nothing is lost."""
    if form is BodyForm.TEXT:
        try:
            return body.decode("utf-8"), "text"
        except UnicodeDecodeError:
            return base64.b64encode(body).decode("ascii"), "base64"
    if form is BodyForm.HEX:
        return body.hex(), "hex"
    return base64.b64encode(body).decode("ascii"), "base64"


def _zlib(body: bytes) -> bytes:
    stream = zlib.decompressobj()
    data = stream.decompress(body, LARGEST_BODY)
    if not stream.eof:
        raise BodyError("the zlib stream is cut off or too long")
    return data


def _lz4(body: bytes) -> bytes:
    import lz4.frame

    stream = lz4.frame.LZ4FrameDecompressor()
    data: bytes = stream.decompress(body, LARGEST_BODY)
    if not stream.eof:
        raise BodyError("the LZ4 frame is cut off or too long")
    return data


def _zstandard(body: bytes) -> bytes:
    import zstandard

    stream = zstandard.ZstdDecompressor().decompressobj()
    data = bytearray()
    try:
        # In small pieces: a few bytes of a hostile frame can stand for 128 KiB each.
        for start in range(0, len(body), _ZSTANDARD_PIECE):
            data += stream.decompress(body[start : start + _ZSTANDARD_PIECE])
            if len(data) > LARGEST_BODY:
                raise BodyError("the Zstandard frame is too long")
            if stream.eof:
                return bytes(data)
    except zstandard.ZstdError as error:
        raise BodyError(str(error)) from error
    raise BodyError("the Zstandard frame is cut off")
