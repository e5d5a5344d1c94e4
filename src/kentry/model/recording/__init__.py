# SPDX-License-Identifier: GPL-2.0-or-later
"""Recording: one file, everything measured on one kernel, with where it came from.

The format is kentry/recording/1 (schema/recording-1.schema.json, docs/formats.md).
"""

from kentry.model.recording.model import (
    EXACT,
    INSTRUCTIONS,
    KIND,
    MODAL,
    NOISY,
    OTHER,
    TIMED,
    VERSION,
    CaseResult,
    Event,
    Instruction,
    KernelPath,
    Metric,
    NoisyMetric,
    Recording,
    TimedProcess,
)
from kentry.model.recording.reading import read_recording
from kentry.model.recording.writing import dump, to_json, write_recording

__all__ = [
    "EXACT",
    "INSTRUCTIONS",
    "KIND",
    "MODAL",
    "NOISY",
    "OTHER",
    "TIMED",
    "VERSION",
    "CaseResult",
    "Event",
    "Instruction",
    "KernelPath",
    "Metric",
    "NoisyMetric",
    "Recording",
    "TimedProcess",
    "dump",
    "read_recording",
    "to_json",
    "write_recording",
]
