# SPDX-License-Identifier: GPL-2.0-or-later
"""Writes the JSON schemas of schema/, which are generated from the structs.

Usage: python scripts/schemas.py FOLDER
"""

import json
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from kentry.models.costs import CostTable
from kentry.results import (
    annotation,
    comparison,
    query,
    recording,
    studies,
    workload,
    workload_comparison,
)
from kentry.results.document import dump
from kentry.vector.documents import ReplayDocument, StatisticsDocument
from kentry.vector.trace import TraceMeta

# The structs that are a file, each with those that msgspec cannot find by itself.
_DOCUMENTS: tuple[tuple[type[Struct], ...], ...] = (
    (recording.Recording,),
    (comparison.Comparison, comparison.CaseComparison, comparison.TimedComparison),
    *((study,) for study in (studies.Series, studies.Ablation, studies.Bisection, studies.Log)),
    *((document,) for document in (studies.Check, studies.ImportDocument)),
    *((document,) for document in (annotation.Annotation, annotation.PathComparison)),
    (workload.Workload,),
    (workload_comparison.WorkloadComparison,),
    (query.Query,),
)
# Those of vectors: their texts are wrapped, and no other key is allowed by the structs themselves.
_OF_VECTORS = (TraceMeta, ReplayDocument, StatisticsDocument, CostTable)
# The names that structs have in published schemas, where these have another.
_PUBLISHED = {
    "CaseResult": "CaseFile",
    "CommitValue": "CommitFile",
    "KernelPath": "PathFile",
    "Measured": "SideFile",
    "PathComparison": "PathDiffFile",
    "SeriesColumn": "ColumnFile",
    "TimedComparison": "TimedRow",
}
_PUBLISHED |= {
    name: f"{name}File"
    for name in (
        *("Ablation", "Bisection", "Cell", "Check", "Comparison", "Log", "PatchRow"),
        *("Recording", "Series"),
    )
}
# Keys that a file leaves out where they would say nothing; it always has the others.
_OPTIONAL = {
    *("accesses", "checked", "checked_counts", "contexts", "distributions", "events", "layout"),
    *("markers", "modal_paths", "overview", "parts", "places", "renamed", "source_lines", "vector"),
}
# The name of a struct in a schema: a title, a key or the end of a reference.
_NAME = re.compile(r'(?<=["/])[A-Z][A-Za-z]+(?=")')


def schemas() -> dict[str, str]:
    """Returns the text of each schema, by its file's name."""
    texts = {
        file_name(structs[0]): _NAME.sub(
            lambda match: _PUBLISHED.get(match[0], match[0]), dump(schema(structs, _complete))
        )
        for structs in _DOCUMENTS
    }
    for struct in _OF_VECTORS:
        document = msgspec.json.encode(schema([struct], _on_one_line))
        texts[file_name(struct)] = msgspec.json.format(document, indent=2).decode() + "\n"
    return texts


def file_name(struct: type[Struct]) -> str:
    """Returns the name of the struct's schema below schema/."""
    _, kind, version = str(struct.__struct_config__.tag).split("/")
    return f"{kind}-{version}.schema.json"


def schema(
    structs: Sequence[type[Struct]], change: Callable[[dict[str, Any]], None]
) -> dict[str, Any]:
    """The schema of the first struct with the others as parts; `change` completes each one's."""
    _, definitions = msgspec.json.schema_components(structs, ref_template="#/$defs/{name}")
    for definition in definitions.values():
        change(definition)
    main = definitions.pop(structs[0].__name__)
    # Only fields that are in memory alone refer to the others.
    parts = {name: json.dumps(part) for name, part in definitions.items()}
    used = json.dumps(main)
    while more := [name for name in parts if f'#/$defs/{name}"' in used]:
        used += "".join(parts.pop(name) for name in more)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": structs[0].__struct_config__.tag,
        **main,
        "$defs": {name: part for name, part in definitions.items() if name not in parts},
    }


def _on_one_line(definition: dict[str, Any]) -> None:
    definition["description"] = " ".join(definition.get("description", "").split())


def _complete(definition: dict[str, Any]) -> None:
    """Requires the keys that every file has, and allows no others.  A named tuple is an array."""
    if "properties" not in definition:
        return
    properties = {
        name: schema
        for name, schema in definition["properties"].items()
        if not schema.pop("unwritten", False)
    }
    definition["properties"] = properties
    definition["required"] = [
        name
        for name, schema in properties.items()
        if not schema.pop("omitted", False) and name not in _OPTIONAL
    ]
    definition["additionalProperties"] = False
    for schema in properties.values():
        schema.pop("default", None)
    if definition["title"] == "NoisyMetric":
        definition["anyOf"] = [
            {"properties": {name: {"minItems": 1}}} for name in ("samples", "absent")
        ]


if __name__ == "__main__":
    for name, text in schemas().items():
        (Path(sys.argv[1]) / name).write_text(text)
