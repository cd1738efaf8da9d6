# SPDX-License-Identifier: Apache-2.0
"""Copies that the daemon makes on its own: when they are due, and how many are kept."""

import asyncio
import os
import time
from pathlib import Path

import pytest

from rdd.daemon import daily_backup
from rdd.daemon.service import backups
from rdd.instance import Instance
from rdd.store.contract import Put
from rdd.store.sqlite import backup
from rdd.store.sqlite.store import SqliteStore


async def test_copy_is_made_when_the_newest_is_a_day_old(tmp_path: Path) -> None:
    instance = Instance("2", tmp_path)
    store = await SqliteStore.open(instance.database)
    await store.commit([Put("/a", b"1")])
    assert daily_backup.is_due(instance)
    task = asyncio.create_task(daily_backup.run(instance, store, first_check_s=0))
    try:
        for _ in range(6_000):
            if backups.existing(instance):
                break
            await asyncio.sleep(0.01)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    (copy,) = backups.existing(instance)
    assert copy.name.endswith("-daily.db")
    assert backup.verify(copy).objects == 1
    assert not daily_backup.is_due(instance)
    for age_s in (daily_backup.DAY_S + 1, -3_600):  # the clock may have been wrong
        os.utime(copy, times=(time.time() - age_s,) * 2)
        assert daily_backup.is_due(instance)
    await store.close()


@pytest.mark.parametrize(
    ("keep", "keep_bytes", "left"),
    [(3, 1000, 3), (10, 25, 2), (10, 5, 1), (0, 0, 1), (10, 1000, 5)],
)
def test_oldest_copies_are_removed(tmp_path: Path, keep: int, keep_bytes: int, left: int) -> None:
    instance = Instance("2", tmp_path)
    instance.backup_dir.mkdir(parents=True)
    for day in range(1, 6):
        (instance.backup_dir / f"2026010{day}T000000Z-daily.db").write_bytes(bytes(10))
    mine = instance.backup_dir / "mine.db"
    mine.write_bytes(bytes(100))
    backups.prune(instance, keep=keep, keep_bytes=keep_bytes)
    kept = [path.name[:8] for path in backups.existing(instance)]
    assert kept == [f"2026010{day}" for day in range(5, 5 - left, -1)]
    assert mine.exists()


def test_newest_copy_in_an_older_format_stays(tmp_path: Path) -> None:
    instance = Instance("2", tmp_path)
    instance.backup_dir.mkdir(parents=True)
    names = ["20260101T000000Z-format-1.db", "20260102T000000Z-format-1.db"]
    names += [f"2026010{day}T000000Z-daily.db" for day in range(3, 6)]
    for name in names:
        (instance.backup_dir / name).write_bytes(bytes(10))
    backups.prune(instance, keep=2)
    assert [path.name for path in backups.existing(instance)] == [names[4], names[3], names[1]]
