"""The texts of the product, its help and its pages use plain words: no word that readers have to guess at.

Judged are comments, docstrings and string constants with a blank in them, help texts, and pages outside of inline code and of blocks
that quote output, whose texts are judged in the code. Names of the program are not judged.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from rmqstore.cli import COMMANDS, group

ROOT = Path(__file__).resolve().parents[2]
CODE = ("rmqstore", "formats", "commands")
PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "docs")

WORDS = {
    r"mend(s|ed|ing|able)?": "repair, fix, what to do",
    r"anew|(made|make|makes|making|built|build) again": "again, rebuild",
    r"nobody|somebody|whoever": "the user, another process, or the thing of the program that is meant",
    r"foretell(s|ing)?|foretold": "predict",
    r"behind": "after, at the end of",
    r"stands|stood": "is, is stored, represents",
    r"lies|lay": "is, is stored, begins",
    r"tells?|told": "report, show, determine",
    r"(gives?|given|giving|gave) up": "lost (cannot be recovered), discarded (by the broker), stopped",
    r"(throws?|thrown|throwing|threw) away": "discards, discarded",
    r"(takes?|taken|taking|took) (it |them |this |that |all of it )?back": "undo",
    r"elsewhere": "remote, in another process, at another place (say which)",
    r"dead weight": "reclaimable",
    r"abnormal mode": "with crash recovery",
    r"by (itself|themselves)": "alone, separately, automatically",
    r"in front of": "before",
    r"sound": "valid",
    r"spins": "busy-loops",
    r"may not be (read|opened|listed|entered|written)": "permission denied",
    r"(come|comes|came|coming) back to life": "is read again",
    r"(what|that|which) (is|was) left of": "the rest of",
    r"(go|goes|going|went) on": "continue",
    r"(hand|hands|handed) (in|back|out)": "pass, return",
    r"(take|takes|took|taking) the place of": "replace",
    r"(let|lets|letting) go": "unlink, release",
    r"riddles?": "something the reader has to guess: say what it is",
    r"person|persons|people": "user, reader",
    r"wish(es)?": "request",
}
"""Words to avoid (whole words, as a regular expression), and what to write instead."""

NO_BEGINNING = re.compile(r"(What|Who|Where|How)\b")
"""Words with which no docstring begins: its subject is a thing of the program, named by a noun."""
NO_BEGINNING_OF_FUNCTION = re.compile(r"(Whether|The|An?|All|Every|Each|One|None|Nothing|Those|That|This)\b|[(`{0-9]")
"""Beginnings of docstrings of functions that are not a verb. A property is described by a noun, or by "Whether"."""

ALLOWED = {
    r'mend="': "the field of a catalogue entry, in a recipe",
    r"(?:slave|transferee) fall behind": "lines of a broker's log",
    r"messages fall behind during|dispatch behind too much|behind=\{bytes\}|readBehind:\{behind\}": "lines of a broker's log",
}
"""Phrases (regular expressions) in which such a word is right, and the reason."""

_FORBIDDEN = [(re.compile(rf"(?<![\w-])(?:{words})(?![\w-])", re.IGNORECASE), instead) for words, instead in WORDS.items()]
_ALLOWED = re.compile("|".join(ALLOWED) or r"(?!)", re.IGNORECASE)
_QUOTED = re.compile(r"^```text\n.*?^```$|`[^`\n]+`", re.DOTALL | re.MULTILINE)

Text = tuple[int, str]
"""A line number, and the text that begins there."""


def texts_of_code(source: str) -> Iterator[Text]:
    """Yield the comments and the string constants with a blank."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.lineno, node.value


def docstring_faults(source: str) -> Iterator[str]:
    """Yield each docstring that does not begin with a noun or, of a function, with a verb."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
            continue
        first = (ast.get_docstring(node) or "").partition("\n")[0]
        function = isinstance(node, ast.FunctionDef) and not any("property" in ast.unparse(one) for one in node.decorator_list)
        if NO_BEGINNING.match(first):
            yield f"{node.body[0].lineno}: a docstring begins with a noun or a verb: {first}"
        elif function and node.name != "__init__" and NO_BEGINNING_OF_FUNCTION.match(first):
            yield f"{node.body[0].lineno}: the docstring of a function begins with a verb: {first}"


def faults(texts: Iterator[Text]) -> Iterator[str]:
    """Yield each forbidden word with its line and the words to use instead."""
    for first, text in texts:
        judged = _ALLOWED.sub(_blank, _QUOTED.sub(_blank, text))
        for pattern, instead in _FORBIDDEN:
            for word in pattern.finditer(judged):
                begin, end = text.rfind("\n", 0, word.start()) + 1, text.find("\n", word.end())
                line = text[begin : end if end >= 0 else None].strip()
                yield f"{first + text.count(chr(10), 0, word.start())}: {word[0]!r} → {instead}: {line}"


def _blank(found: re.Match[str]) -> str:
    return " " * len(found[0])


def faults_of(path: Path) -> list[str]:
    """Return the faults of a source file or a page."""
    source = path.read_text(encoding="utf-8")
    found = [*faults(texts_of_code(source)), *docstring_faults(source)] if path.suffix == ".py" else list(faults(iter([(1, source)])))
    return [f"{path.relative_to(ROOT).as_posix()}:{fault}" for fault in found]


def judged_files() -> Iterator[Path]:
    for folder in CODE:
        yield from sorted((ROOT / folder).rglob("*.py"))
    for name in PAGES:
        yield from sorted((ROOT / name).rglob("*.md")) if (ROOT / name).is_dir() else [ROOT / name]


def test_texts_use_plain_words() -> None:
    files = list(judged_files())
    assert len(files) > 200
    found = [fault for path in files for fault in faults_of(path)]
    assert found == [], "\n".join(found)


@pytest.mark.parametrize("name", ["rmqstore", *COMMANDS])
def test_help_uses_plain_words(name: str) -> None:
    root = click.Context(group, info_name="rmqstore")
    command = group if name == "rmqstore" else group.get_command(root, name)
    assert command is not None
    settings = {"help_option_names": ["-h", "--help"], "terminal_width": 1000, "max_content_width": 1000}
    text = command.get_help(click.Context(command, info_name=name, **settings))
    assert list(faults(iter([(1, text)]))) == []


@pytest.mark.parametrize("phrase", ALLOWED)
def test_an_allowed_phrase_is_used(phrase: str) -> None:
    pattern = re.compile(phrase, re.IGNORECASE)
    assert any(pattern.search(path.read_text(encoding="utf-8")) for path in judged_files()), f"remove {phrase} from ALLOWED"


def test_each_kind_of_text_is_judged() -> None:
    source = '"""Told at the top."""\nname = "mend"  # somebody\nprint(f"{name} lies behind", `behind`)\n'.replace(", `behind`", "")
    assert [fault.split(" → ")[0] for fault in faults(texts_of_code(source))] == ["2: 'somebody'", "1: 'Told'", "3: 'behind'", "3: 'lies'"]


def test_docstrings_begin_with_a_noun_or_a_verb() -> None:
    source = """
def first() -> int:
    \"\"\"The number.\"\"\"

@property
def second() -> bool:
    \"\"\"Whether it is one.\"\"\"

class Third:
    \"\"\"What it is.\"\"\"

def fourth() -> int:
    \"\"\"Return the number.\"\"\"
"""
    assert [fault.partition(":")[0] for fault in docstring_faults(source)] == ["3", "10"]


def test_names_and_inline_code_are_not_judged() -> None:
    assert list(faults(texts_of_code("def mend(told: str) -> None:\n    '''See `mend` of a finding.'''\n"))) == []
