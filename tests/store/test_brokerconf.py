"""broker.conf as Java reads properties, types and defaults of settings, and what `--set` lays over them."""

from __future__ import annotations

from pathlib import Path

import pytest

from rmqstore.errors import UnreadableError, UsageError
from rmqstore.store.brokerconf import BrokerConfig, parse_properties_text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=1\nb = 2 \nc:3\nd 4", {"a": "1", "b": "2 ", "c": "3", "d": "4"}),
        ("# comment\n! too\n\n  a=1", {"a": "1"}),
        ("a=one\\\n   two", {"a": "onetwo"}),
        ("a=x\\\\\nb=2", {"a": "x\\", "b": "2"}),
        ("a\\=b=c=d", {"a=b": "c=d"}),
        ("a=\\u00e9\\t\\q", {"a": "é\tq"}),
        ("a\r\nb=\r\na=2", {"a": "2", "b": ""}),
        ("path=C\\:\\\\store", {"path": "C:\\store"}),
    ],
)
def test_properties_text(text: str, expected: dict[str, str]) -> None:
    assert parse_properties_text(text) == expected


def test_defaults_are_the_brokers() -> None:
    config = BrokerConfig()
    assert config.integer("mappedFileSizeCommitLog") == 1_073_741_824
    assert config.integer("mappedFileSizeConsumeQueue") == 6_000_000
    assert config.flag("messageIndexEnable") is True
    assert config.text("multiPathSplitter") == ","
    assert config.explicit("mappedFileSizeCommitLog") is None
    assert config.commit_log_file_size is None
    assert config.consume_queue_file_size is None


def test_settings_win_over_the_file_and_root_is_filled_in(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("mappedFileSizeCommitLog=65536\nenableLmq=true\nbrokerName=café\n")
    config = BrokerConfig.load(conf, {"mappedFileSizeCommitLog": "131072", "storePathCommitLog": "{root}/a,{root}/b"}, root=Path("/s"))
    assert config.commit_log_file_size == 131072
    assert config.flag("enableLmq") is True
    assert config.text("brokerName") == "café"
    assert config.text("storePathCommitLog") == "/s/a,/s/b"


def test_consume_queue_length_is_rounded_up_to_units() -> None:
    assert BrokerConfig.load(settings={"mappedFileSizeConsumeQueue": "401"}).consume_queue_file_size == 420


def test_delay_levels() -> None:
    given = BrokerConfig.load(settings={"messageDelayLevel": "1s 2m"})
    assert given.delay_levels == given.known_delay_levels == (1_000, 120_000)
    broken = BrokerConfig.load(settings={"messageDelayLevel": "1s soon"})
    assert broken.delay_levels is None
    assert broken.known_delay_levels == BrokerConfig().known_delay_levels == BrokerConfig().delay_levels


def test_a_bad_value_in_the_file_counts_as_not_given(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("mappedFileSizeCommitLog=1g\nmaxIndexNum=800\n")
    config = BrokerConfig.load(conf)
    assert config.commit_log_file_size is None
    assert list(config.malformed()) == [("mappedFileSizeCommitLog", "1g")]
    assert config.explicit_integer("maxIndexNum") == 800


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("mappedFileSizeCommitLog", "1g"),
        ("mappedFileSizeCommitLog", "0"),
        ("maxIndexNum", "-5"),
        ("enableLmq", "yes"),
        ("brokerId", "2147483648"),
    ],
)
def test_a_bad_setting_is_a_usage_error(key: str, value: str) -> None:
    with pytest.raises(UsageError, match=key):
        BrokerConfig.load(settings={key: value})


def test_a_missing_or_binary_broker_conf_is_told(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match="does not exist"):
        BrokerConfig.load(tmp_path / "broker.conf")
    (tmp_path / "binary").write_bytes(b"a=1\0\0")
    with pytest.raises(UnreadableError, match="not a text file"):
        BrokerConfig.load(tmp_path / "binary")
