"""The JSON that brokers accept (fact sheet timer §3.1, sheet of the newer releases §8.1)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqstore.store.fastjson import Leniency, is_blank, parse, with_integers

ACCEPTED = [
    (b'{"a":1}', {"a": 1}, set()),
    (b'{"orders@g1":{0:100,1:98\n}}', {"orders@g1": {"0": 100, "1": 98}}, {Leniency.INTEGER_KEYS}),
    (b'{"ot":{-3 : 1}}', {"ot": {"-3": 1}}, {Leniency.INTEGER_KEYS}),
    (b'\xef\xbb\xbf{"a":1}', {"a": 1}, {Leniency.BYTE_ORDER_MARK}),
    (b'{"a":1}\0\0\0', {"a": 1}, {Leniency.ZERO_BYTES_AROUND}),
    (b'\0\0{"a":1}', {"a": 1}, {Leniency.ZERO_BYTES_AROUND}),
    (b'{"a":\0\0 1}', {"a": 1}, {Leniency.ZERO_BYTES_INSIDE}),
    (b'/* x */{"a":1}', {"a": 1}, {Leniency.COMMENTS}),
    (b'{"a":[1,2,],}', {"a": [1, 2]}, {Leniency.TRAILING_COMMAS}),
    (b'{"a":1,"a":2}', {"a": 2}, set()),
    (b"null", None, set()),
    (b"[]", [], set()),
    # what looks like a leniency inside a string is content
    (b'{"expression":"{1:2,} /* x */"}', {"expression": "{1:2,} /* x */"}, set()),
    (b'{0:"a \\" {1:"}', {"0": 'a " {1:'}, {Leniency.INTEGER_KEYS}),
    (b'{"a":"\xff"}', {"a": "\N{REPLACEMENT CHARACTER}"}, {Leniency.MALFORMED_UTF8}),
]


@pytest.mark.parametrize(("data", "value", "leniencies"), ACCEPTED)
def test_what_brokers_accept(data: bytes, value: object, leniencies: set[Leniency]) -> None:
    result = parse(data)
    assert (result.value, result.leniencies) == (value, leniencies)


REJECTED = [
    b"",
    b"\0\0\0\0",
    b"  \n",
    b'{"a":1',
    b'{"a"',
    b'{"a":1}}',
    b'{"a":1} x',
    b'{"a":1}{"b":2}',
    b'{"a":"b',
    b"\x7fELF\x02",
    b'{"a":NaN}',
    b"{1.5:2}",
    b"[" * 100_000,
]


@pytest.mark.parametrize("data", REJECTED, ids=range(len(REJECTED)))
def test_what_brokers_reject(data: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse(data)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(VALUES)
def test_standard_json_is_read_as_it_is(value: object) -> None:
    data = json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")
    if b"\xed" not in data:
        assert parse(data).value == value


@given(st.dictionaries(st.integers(-(2**31), 2**31 - 1), st.integers(0, 2**63 - 1), min_size=1))
def test_bare_integer_keys_become_text(offsets: dict[int, int]) -> None:
    text = "{" + ",".join(f"{queue}:{offset}" for queue, offset in offsets.items()) + "}"
    result = parse(text.encode())
    assert result.value == {str(queue): offset for queue, offset in offsets.items()}
    assert result.leniencies == {Leniency.INTEGER_KEYS}


@given(st.binary(max_size=200))
def test_no_other_error_leaves_the_reader(data: bytes) -> None:
    try:
        parse(data)
    except ValueError:
        assert data != b"{}"


@pytest.mark.parametrize(("data", "blank"), [(b"", True), (b" \r\n\t", True), (b"\0", False), (b"null", False)])
def test_blank(data: bytes, blank: bool) -> None:
    assert is_blank(data) is blank


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b'{"a":{"x":1,"y":2}}', b'{"a":{"x":7,"y":2}}'),
        (
            b'\xef\xbb\xbf{ "b":[{"x":1}], "a" : {x: 0, /* "x":1 */ "x" : -1 ,} }\0\0',
            b'\xef\xbb\xbf{ "b":[{"x":1}], "a" : {x: 7, /* "x":1 */ "x" : 7 ,} }\0\0',
        ),
        (b'{"a":{"\\u0078":1,"caf\xc3\xa9":"x:1","\xff":3}}', b'{"a":{"\\u0078":7,"caf\xc3\xa9":"x:1","\xff":3}}'),
        (b'{"x":1,"a":[1,{"x":1}]}', b'{"x":1,"a":[1,{"x":1}]}'),
    ],
)
def test_other_integers_leave_every_other_byte(before: bytes, after: bytes) -> None:
    assert with_integers(before, {("a", "x"): 7}) == after
