# SPDX-License-Identifier: GPL-2.0-or-later
"""Where the members of a kernel's structures are, from the type information in its image.

BTF (Documentation/bpf/btf.rst) is what CONFIG_DEBUG_INFO_BTF puts there, as distributions do;
pahole reads it.
"""

import re
import struct
import subprocess
import tempfile
from collections.abc import Sequence

from kentry.errors import KernelError
from kentry.host.process import need, run

# struct btf_header: magic 0xeb9f, version 1, flags 0, its own length 24; little endian.
_MAGIC = bytes.fromhex("9feb010018000000")
# Offset and length of the types, and of the strings, counted from the header's end.
_SECTIONS = struct.Struct("<IIII")
_HEADER_BYTES = 24

# What makes a kernel have it.
OPTION = "DEBUG_INFO_BTF"


def member_offsets(image: bytes, name: str, members: Sequence[str], spec: str) -> dict[str, int]:
    """Bytes from the beginning of `struct name` to each of `members`.

    `image` is the uncompressed kernel, `spec` what the user calls it.  KernelError where it has
    no type information or the structure no such member.
    """
    # The longest blob: a module's or a test's are short.
    blob = b""
    for match in re.finditer(re.escape(_MAGIC), image[: -_SECTIONS.size]):
        _, types, strings_at, strings = _SECTIONS.unpack_from(image, match.end())
        end = match.start() + _HEADER_BYTES + strings_at + strings
        if types <= strings_at and match.start() + len(blob) < end <= len(image):
            blob = image[match.start() : end]
    if not blob:
        raise KernelError(
            f"{spec} has no type information, so its tasks cannot be told apart.",
            f"Use a kernel with CONFIG_{OPTION}=y: Debian's, or one built with --config userland.",
        )
    with tempfile.NamedTemporaryFile(prefix="kentry-", suffix=".btf") as file:
        file.write(blob)
        file.flush()
        try:
            text = run([need("pahole", "dwarves"), "-C", name, file.name]).stdout
        except subprocess.CalledProcessError as err:
            raise KernelError(
                f"The type information of {spec} cannot be read.", "", err.stderr.strip()
            ) from err
    offsets = {}
    for member in members:
        # One tab: a member of the structure itself, "TYPE NAME[N]; /* OFFSET SIZE */".
        row = rf"^\t\S[^\t]*?\b{re.escape(member)}(?:\[\d+\])*;\s+/\*\s+(\d+)\s"
        found = re.search(row, text, re.MULTILINE)
        if not found:
            raise KernelError(f"struct {name} of {spec} has no {member}.")
        offsets[member] = int(found[1])
    return offsets
