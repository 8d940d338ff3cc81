"""The settings that affect a start, read once from the store's configuration, with the broker's defaults for the rest."""

from __future__ import annotations

from dataclasses import dataclass

from rmqstore.store.brokerconf import BrokerConfig
from rmqstore.versions import Profile

MASTER_ID = 0


@dataclass(frozen=True, slots=True)
class Options:
    """Settings under their RocketMQ names in snake_case; `delay_levels` in ms per level, None if the text stops the broker.

    `known_delay_levels`: the default ones in that case.
    """

    check_crc_on_recover: bool
    force_verify_prop_crc: bool
    duplication_enable: bool
    message_index_enable: bool
    message_index_safe: bool
    index_file_write_enable: bool
    recheck_reput_offset_from_cq: bool
    read_uncommitted: bool
    sync_flush: bool
    enable_lmq: bool
    enable_multi_dispatch: bool
    enable_consume_queue_ext: bool
    enable_compaction: bool
    enable_controller_mode: bool
    enable_dledger_commit_log: bool
    commit_log_recover_max_num: int
    enable_accelerated_recovery: bool
    check_commit_log_offset_on_recover: bool
    slave: bool
    skips_bad_records: bool
    """A master continues after a record that cannot be dispatched; a slave stops at it."""
    delay_levels: tuple[int, ...] | None
    known_delay_levels: tuple[int, ...]

    @classmethod
    def of(cls, config: BrokerConfig) -> Options:
        """Return the options that `config` sets."""
        return cls(
            check_crc_on_recover=config.flag("checkCRCOnRecover"),
            force_verify_prop_crc=config.flag("forceVerifyPropCRC"),
            duplication_enable=config.flag("duplicationEnable"),
            message_index_enable=config.flag("messageIndexEnable"),
            message_index_safe=config.flag("messageIndexSafe"),
            index_file_write_enable=config.flag("indexFileWriteEnable"),
            recheck_reput_offset_from_cq=config.flag("recheckReputOffsetFromCq"),
            read_uncommitted=config.flag("readUnCommitted"),
            sync_flush=config.text("flushDiskType") == "SYNC_FLUSH",
            enable_lmq=config.flag("enableLmq"),
            enable_multi_dispatch=config.flag("enableMultiDispatch"),
            enable_consume_queue_ext=config.flag("enableConsumeQueueExt"),
            enable_compaction=config.flag("enableCompaction"),
            enable_controller_mode=config.flag("enableControllerMode"),
            enable_dledger_commit_log=config.flag("enableDLegerCommitLog"),
            commit_log_recover_max_num=config.integer("commitLogRecoverMaxNum"),
            enable_accelerated_recovery=config.flag("enableAcceleratedRecovery"),
            check_commit_log_offset_on_recover=config.flag("checkCommitLogOffsetOnRecover"),
            slave=config.text("brokerRole") == "SLAVE",
            skips_bad_records=config.integer("brokerId") == MASTER_ID,
            delay_levels=config.delay_levels,
            known_delay_levels=config.known_delay_levels,
        )

    def builds_index(self, profile: Profile) -> bool:
        """Return whether a broker with these settings writes index files."""
        return self.message_index_enable and not (profile.indexes_tags and not self.index_file_write_enable)
