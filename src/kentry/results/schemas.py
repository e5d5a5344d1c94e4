# SPDX-License-Identifier: GPL-2.0-or-later
"""The JSON schemas of schema/, generated from the structs.

`python -m kentry.results.schemas schema` writes them.
"""

import sys
from pathlib import Path
from typing import Any

import msgspec

from kentry.results.ablation import AblationFile
from kentry.results.bisection import BisectionFile
from kentry.results.check import CheckFile
from kentry.results.comparison import CaseComparison, ComparisonFile, TimedRow
from kentry.results.document import dump
from kentry.results.import_document import ImportDocument
from kentry.results.log import LogFile
from kentry.results.path_diff import PathDiffFile
from kentry.results.recording import RecordingFile
from kentry.results.series import SeriesFile

# Each schema's struct, and those that msgspec cannot find by itself.
_DOCUMENTS: dict[str, tuple[type, ...]] = {
    "kentry/recording/1": (RecordingFile,),
    "kentry/comparison/1": (ComparisonFile, CaseComparison, TimedRow),
    "kentry/series/1": (SeriesFile,),
    "kentry/ablation/1": (AblationFile,),
    "kentry/bisection/1": (BisectionFile,),
    "kentry/log/1": (LogFile,),
    "kentry/path-diff/1": (PathDiffFile,),
    "kentry/check/1": (CheckFile,),
    "kentry/import/1": (ImportDocument,),
}
# Keys that a file leaves out where they would say nothing; it always has the others.
_OPTIONAL = {
    *("accesses", "checked", "checked_counts", "contexts", "empties", "estimates", "events"),
    *("markers", "misses", "parts", "places", "reasons", "renamed", "source_lines", "vector"),
}


def schemas() -> dict[str, str]:
    """The text of each schema, by its file's name."""
    texts = {}
    for schema, structs in _DOCUMENTS.items():
        _, definitions = msgspec.json.schema_components(structs, ref_template="#/$defs/{name}")
        for definition in definitions.values():
            # A named tuple is an array.
            if "properties" not in definition:
                continue
            properties = definition["properties"]
            definition["required"] = [name for name in properties if name not in _OPTIONAL]
            definition["additionalProperties"] = False
            for one in properties.values():
                one.pop("default", None)
        if "NoisyMetric" in definitions:
            definitions["NoisyMetric"]["anyOf"] = [
                {"properties": {name: {"minItems": 1}}} for name in ("samples", "absent")
            ]
        document: dict[str, Any] = {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "$id": schema,
            **definitions.pop(structs[0].__name__),
            "$defs": definitions,
        }
        name = "-".join(schema.split("/")[1:])
        texts[f"{name}.schema.json"] = dump(document)
    return texts


if __name__ == "__main__":
    for name, text in schemas().items():
        (Path(sys.argv[1]) / name).write_text(text)
