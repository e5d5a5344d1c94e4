# SPDX-License-Identifier: GPL-2.0-or-later
"""Addresses to functions, and why a path is another one."""

import pytest

from kentry.path.symbols import UNNAMED, SymbolMap, base_name, why


@pytest.mark.parametrize(
    ("address", "place"),
    [
        *((address, (UNNAMED, 0)) for address in (0, 0xFF, 0x300, 0x10000)),
        *((0x100, ("a", 0)), (0x1FF, ("a", 0xFF)), (0x200, ("b", 0)), (0x2FF, ("b", 0xFF))),
    ],
)
def test_the_function_is_the_nearest_symbol_at_or_below(
    address: int, place: tuple[str, int]
) -> None:
    assert SymbolMap([(0x100, "a"), (0x200, "b")], end=0x300).find(address) == place


@pytest.mark.parametrize(
    ("names", "best"),
    [
        (["__pi_memset", "memset"], "memset"),
        (["_stext", "__irqentry_text_start", "bcm2835_handle_irq"], "bcm2835_handle_irq"),
        (["__se_sys_read", "__do_sys_read"], "__do_sys_read"),
        (["__arm64_sys_ni_syscall", "sys_ni_syscall"], "sys_ni_syscall"),
        (["_etext", "_text"], "_etext"),
    ],
)
def test_the_name_that_developers_use_is_preferred(names: list[str], best: str) -> None:
    for order in (names, names[::-1]):
        assert SymbolMap([(8, name) for name in order]).find(8) == (best, 0)


def test_mapping_symbols_are_no_functions() -> None:
    assert SymbolMap([(8, "f"), (16, "$x"), (24, "__pi_$d")]).find(32) == ("f", 24)


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("el0_svc_common.constprop.0", "el0_svc_common"),
        ("foo.isra.0.cold", "foo"),
        ("bar.part.12", "bar"),
        ("x.llvm.1234567", "x"),
        ("plain", "plain"),
        ("dotted.name", "dotted.name"),
    ],
)
def test_a_compilers_clone_has_its_functions_name(name: str, base: str) -> None:
    assert base_name(name) == base


MODAL = {"el0_svc": 40, "__arm64_sys_openat": 200, "___slab_alloc": 10}


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"__schedule": 300}, "reschedule"),
        ({"do_page_fault": 30, "handle_mm_fault": 90}, "page fault"),
        ({"get_random_u32": 20, "chacha_permute": 4000}, "random pool refill"),
        ({"__slab_free": 80}, "slab refill"),
        ({"rcu_core": 10, "__schedule": 1}, "reschedule"),
        ({"brand_new": 9, "other": 1}, "more in brand_new, other"),
        # A function of every window is no reason.
        ({"___slab_alloc": 20}, "more in ___slab_alloc"),
        ({"__arm64_sys_openat": 0}, "less in __arm64_sys_openat"),
        ({}, "the same functions, other instructions"),
    ],
)
def test_a_function_that_only_this_path_has_says_why(changed: dict[str, int], reason: str) -> None:
    other = {name: count for name, count in {**MODAL, **changed}.items() if count}
    assert why(MODAL, other) == reason
