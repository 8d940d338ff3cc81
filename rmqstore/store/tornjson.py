"""The readable beginning of JSON of a broker that is cut off, as by a crash, or damaged further on."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from rmqstore.store.fastjson import decode, load, tokens


@dataclass(frozen=True, slots=True)
class ReadablePart:
    """The beginning of a text up to where it cannot be read: the members of its object, and the keys that lead to where it ends.

    Objects on the way there are incomplete; every other value is complete.
    """

    value: dict[str, Any]
    cut: tuple[str, ...]


def readable_part(data: bytes) -> ReadablePart:
    """Return what can be read of a text that is cut off or damaged; no members where it does not begin with an object."""
    root: dict[str, Any] = {}
    stack: list[tuple[Any, str]] = []  # containers that are not closed, and in objects the key of the member in the making
    last: Any = None  # a value that is complete once a comma or a closing bracket follows
    waits = False
    # A text without an end ends here; one that is damaged does so at the first token that does not fit.
    with suppress(ValueError):
        for kind, token in tokens(decode(data, set())):
            if kind in ("space", "comment", "zero"):
                continue
            if token in "{[" and not waits:
                made: Any = root if not stack else {} if token == "{" else []
                if (not stack and (root or token == "[")) or (stack and isinstance(stack[-1][0], dict) and not stack[-1][1]):
                    break
                _put(stack, made)
                stack.append((made, ""))
            elif token == ":" and waits and stack and isinstance(stack[-1][0], dict):
                stack[-1] = stack[-1][0], str(last)
                waits = False
            elif kind in ("comma", "close") and stack:
                if waits:
                    _put(stack, last)
                container, waits = stack[-1][0], False
                stack[-1] = container, ""
                if kind == "close":
                    if (token == "}") != isinstance(container, dict):
                        break
                    stack.pop()
                    if not stack:
                        break
            elif kind in ("string", "word") and stack and not waits:
                last, waits = load(token), True
            else:
                break
    return ReadablePart(root, tuple(key for _, key in stack if key))


def _put(stack: list[tuple[Any, str]], value: Any) -> None:
    if not stack:
        return
    container, key = stack[-1]
    if isinstance(container, list):
        container.append(value)
    elif key:
        container[key] = value
    else:
        raise ValueError("a value without a key")
