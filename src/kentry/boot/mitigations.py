# SPDX-License-Identifier: GPL-2.0-or-later
"""What a kernel says of the processor that it runs on: flaws, its mitigations, features.

The texts are those of drivers/base/cpu.c and of each architecture's /proc/cpuinfo.
"""

import re
from collections.abc import Collection, Iterable, Mapping

CPUINFO = "/proc/cpuinfo"
_FOLDER = "/sys/devices/system/cpu/vulnerabilities"

# Ordered by how much they can do to a kernel entry.
_FLAWS = (
    "meltdown",
    "retbleed",
    "spec_rstack_overflow",
    "spectre_v2",
    "mds",
    "mmio_stale_data",
    "reg_file_data_sampling",
    "tsx_async_abort",
    "tsa",
    "indirect_target_selection",
    "vmscape",
    "spectre_v1",
    "spec_store_bypass",
    "srbds",
    "l1tf",
    "gather_data_sampling",
    "itlb_multihit",
    "ghostwrite",
    "old_microcode",
)
# In place of a mitigation: nothing that the kernel does.  CSV2: the cpu is not affected.
_NOTHING_DONE = {"vulnerable", "Unknown", "CSV2", "VMX-unsupported", "VMX-disabled"}

# A shell script that prints lines "WORD FLAW TEXT", which flaws_of() reads.
PRINTING_FLAWS = f"""for file in {_FOLDER}/*; do
\tif [ -r "$file" ]; then read -r text <"$file"; echo "{{word}} ${{{{file##*/}}}} $text"; fi
done"""

VULNERABILITIES = tuple(f"{_FOLDER}/{flaw}" for flaw in _FLAWS)


def flaws_of(lines: Iterable[str]) -> dict[str, str]:
    """Returns the files of mitigations(), from lines "FLAW TEXT"."""
    return {f"{_FOLDER}/{name}": text for name, _, text in (line.partition(" ") for line in lines)}


def mitigations(files: Mapping[str, str], without: Collection[str] = ()) -> str:
    """Returns FLAW=WORD for each of this cpu's: the mitigation's, or "vulnerable"; or "none".

    `without` are flaws that the cpu does not have, although the kernel believes so.
    """
    states, is_known = [], False
    for flaw, path in zip(_FLAWS, VULNERABILITIES, strict=True):
        text = files.get(path, "").strip()
        is_known = is_known or bool(text)
        if flaw in without:
            continue
        if match := re.match(r"(?:KVM: )?Mitigation: ([^;,]*)", text):
            states.append(f"{flaw}={_word(match[1].partition(' and ')[0])}")
        elif match := re.match(r"Vulnerable: ([^;,]* attempted)", text):
            # The kernel does it, and the microcode does not do its part.
            states.append(f"{flaw}={_word(match[1])}")
        elif "ulnerable" in text:
            states.append(f"{flaw}=vulnerable")
        elif text and not text.startswith("Not affected"):
            states.append(f"{flaw}={_word(re.split('[;,:]', text)[0])}")
        # The kernel lists these two within spectre_v2; they are work at each entry.
        if match := re.search(r"; BHI: (?!Not affected)([^;,]*)", text):
            states.append(f"bhi={'vulnerable' if 'ulnerable' in match[1] else _word(match[1])}")
        if text.endswith(", BHB"):
            states.append("bhb=mitigated")
    return " ".join(states) or ("none" if is_known else "")


def active(states: str) -> dict[str, str]:
    """The mitigations among the `states` of mitigations(), by flaw: what the kernel does."""
    by_flaw = dict(state.split("=", 1) for state in states.split() if "=" in state)
    return {flaw: word for flaw, word in by_flaw.items() if word not in _NOTHING_DONE}


def features(files: Mapping[str, str]) -> str:
    """The first cpu's features in the words of /proc/cpuinfo; "" where that was not read."""
    row = re.search(r"^(?:flags|Features|isa)[ \t]*: (.*)", files.get(CPUINFO, ""), re.MULTILINE)
    return row[1].strip() if row else ""


def _word(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9.]+", "-", text).strip("-")
