# SPDX-License-Identifier: GPL-2.0-or-later
"""The simulated fleet: what it takes by hand, and that kentry's search finds every change in it."""

from __future__ import annotations

from bench.simulate import PROCESSORS, Costs, World, every_commit, histories, searches

from kentry.arch import ARCHES

# Seconds: of a unit at the scheduler, of builds, of a kernel that is there, a boot, the store.
COSTS = Costs(scheduler=1, whole=100, build=10, fetch=2, boot=5, store=3)


def test_a_commit_on_one_worker_takes_what_a_hand_adds_up() -> None:
    world = World(COSTS, 1, own_trees=True)
    [client, *_] = every_commit(1, world)
    world.run([client])
    # One whole build, three kernels that are there, four boots; before them one unit is taken by
    # the scheduler, and after them one is put into the store.
    assert world.now == 1 + 100 + 3 * 2 + 4 * 5 + 3
    assert world.workers.busy == 100 + 3 * 2 + 4 * 5
    assert (world.scheduler.busy, world.store.busy) == (4, 12)


def test_what_is_slow_and_alone_holds_up_any_number_of_workers() -> None:
    slow = COSTS._replace(store=1000)
    world = World(slow, 500, own_trees=True)
    world.run(list(every_commit(10, world)))
    units = 10 * PROCESSORS * len(ARCHES)
    assert units * slow.store <= world.now < units * slow.store + 200
    assert world.store.busy == units * slow.store


def test_one_work_tree_is_used_by_one_worker_at_a_time() -> None:
    world = World(COSTS, 40, own_trees=False)
    world.run(list(every_commit(30, world)))
    builds = 30 * len(ARCHES)
    assert world.counts["builds"] == builds
    one_by_one = len(ARCHES) * COSTS.whole + (builds - len(ARCHES)) * COSTS.build
    assert world.tree.busy == one_by_one < world.now < 1.1 * one_by_one


def test_a_search_finds_every_change_with_few_units() -> None:
    commits = 3000
    assert all(values[0] < values[-1] for values in histories(commits).values())
    world = World(COSTS, 24, own_trees=True)
    # Each client holds what it found against the history.
    world.run(list(searches(commits, 2, world)))
    units = world.counts["units"]
    assert units < commits * PROCESSORS * len(ARCHES) / 5
    # The four processors of a commit have one kernel.
    assert world.counts["builds"] == units / PROCESSORS
