# SPDX-License-Identifier: GPL-2.0-or-later
"""What kernels say of flaws, in texts of real ones, as the words of a recording."""

import pytest

from kentry.boot.mitigations import CPUINFO, VULNERABILITIES, features, mitigations

FOLDER = "/sys/devices/system/cpu/vulnerabilities"

# debian:6.12 (6.12.117) on Skylake-Server-v1 and on cortex-a76 under QEMU 7.2.
SKYLAKE = {
    "meltdown": "Mitigation: PTI",
    "spectre_v2": "Mitigation: Retpolines; STIBP: disabled; RSB filling; PBRSB-eIBRS: Not affected;"
    " BHI: Retpoline",
    "mds": "Vulnerable: Clear CPU buffers attempted, no microcode; SMT Host state unknown",
    "indirect_target_selection": "Mitigation: Aligned branch/return thunks",
    "spectre_v1": "Mitigation: usercopy/swapgs barriers and __user pointer sanitization",
    "srbds": "Not affected",
    "l1tf": "Mitigation: PTE Inversion",
    "gather_data_sampling": "Unknown: Dependent on hypervisor status",
    "itlb_multihit": "KVM: Mitigation: VMX unsupported",
}
A76 = {
    "meltdown": "Not affected",
    "spectre_v2": "Mitigation: CSV2, BHB",
    "spec_store_bypass": "Mitigation: Speculative Store Bypass disabled via prctl",
}


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (
            SKYLAKE,
            "meltdown=PTI spectre_v2=Retpolines bhi=Retpoline mds=Clear-CPU-buffers-attempted"
            " indirect_target_selection=Aligned-branch-return-thunks"
            " spectre_v1=usercopy-swapgs-barriers l1tf=PTE-Inversion"
            " gather_data_sampling=Unknown itlb_multihit=VMX-unsupported",
        ),
        (
            A76,
            "spectre_v2=CSV2 bhb=mitigated"
            " spec_store_bypass=Speculative-Store-Bypass-disabled-via-prctl",
        ),
        # A Cortex-A72 whose firmware has no workaround: arch/arm64/kernel/proton-pack.c; the
        # others are of arch/x86/kernel/cpu/bugs.c, spectre_bhi_state().
        ({"spectre_v2": "Vulnerable"}, "spectre_v2=vulnerable"),
        ({"spectre_v2": "Vulnerable; BHI: Vulnerable"}, "spectre_v2=vulnerable bhi=vulnerable"),
        ({"spectre_v2": "Mitigation: IBRS; BHI: Not affected"}, "spectre_v2=IBRS"),
        ({"spectre_v2": "Mitigation: IBRS; BHI: BHI_DIS_S"}, "spectre_v2=IBRS bhi=BHI-DIS-S"),
        (
            {"spectre_v2": "Mitigation: IBRS; BHI: SW loop, KVM: SW loop"},
            "spectre_v2=IBRS bhi=SW-loop",
        ),
        ({"meltdown": "Not affected", "mds": "Not affected"}, "none"),
        # No folder (before 4.15, or without sysfs), and files that are empty.
        ({}, ""),
        ({"meltdown": "", "mds": "\n"}, ""),
    ],
)
def test_mitigations_in_a_words_a_flaw(said: dict[str, str], words: str) -> None:
    files = {f"{FOLDER}/{flaw}": f"{text}\n" if text else "" for flaw, text in said.items()}
    assert set(files) <= set(VULNERABILITIES)
    assert mitigations(files) == words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("processor\t: 0\nFeatures\t: fp asimd\nCPU part\t: 0xd0b\n", "fp asimd"),
        ("vendor_id\t: GenuineIntel\nflags\t\t: fpu vme\nvmx flags\t: vnmi\n", "fpu vme"),
        ("processor\t: 0\nisa\t\t: rv64imafdc\nmmu\t: sv48\n", "rv64imafdc"),
        ("processor\t: 0\n", ""),
        ("", ""),
    ],
)
def test_features_are_the_first_cpus(text: str, words: str) -> None:
    assert features({CPUINFO: text + text} if text else {}) == words
