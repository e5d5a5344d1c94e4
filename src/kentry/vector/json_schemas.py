# SPDX-License-Identifier: GPL-2.0-or-later
"""The JSON schemas of traces, replays, statistics and cost tables, generated from the structs.

`python -m kentry.vector.json_schemas schema` writes them.
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from kentry.vector.costs import CostTable
from kentry.vector.documents import ReplayDocument, StatisticsDocument
from kentry.vector.trace import TraceMeta

_DOCUMENTS: dict[str, type[msgspec.Struct]] = {
    "vector-trace-1": TraceMeta,
    "vector-replay-1": ReplayDocument,
    "vector-statistics-1": StatisticsDocument,
    "costs-1": CostTable,
}


def schemas() -> dict[str, str]:
    """The text of each schema, by its file's name."""
    texts = {}
    for name, struct in _DOCUMENTS.items():
        (_,), parts = msgspec.json.schema_components([struct], ref_template="#/$defs/{name}")
        for part in parts.values():
            part["description"] = " ".join(part.get("description", "").split())
        document = {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "$id": struct.__struct_config__.tag,
            **parts.pop(struct.__name__),
            "$defs": parts,
        }
        text = msgspec.json.format(msgspec.json.encode(document), indent=2).decode()
        texts[f"{name}.schema.json"] = text + "\n"
    return texts


if __name__ == "__main__":
    for name, text in schemas().items():
        (Path(sys.argv[1]) / name).write_text(text, encoding="utf-8")
