# SPDX-License-Identifier: Apache-2.0
import gc

from rdd.apiserver.state.entries import CacheEntry


def test_entries_are_not_visited_by_the_garbage_collector() -> None:
    entries = [CacheEntry("default", f"a-{i}", i, b'"metadata":{}}') for i in range(1000)]
    assert not any(gc.is_tracked(entry) for entry in entries)
    gc.collect()
    assert entries[7].name == "a-7"
    bodies = [entry.body for entry in entries]
    del entries
    gc.collect()
    assert len(bodies) == 1000
