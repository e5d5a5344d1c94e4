# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry vector: trace a workload, look at the trace, replay policies on it, measure costs."""

from __future__ import annotations

from kentry.commands import vector_costs, vector_replay, vector_stats, vector_trace

NAME = "vector"
HELP = "what the policy for vector state costs a workload: trace, replay, stats, costs"

EXAMPLES = (
    "kentry vector trace debian:6.12 -- compile",
    "kentry vector replay compile-arm64.parquet",
    "kentry vector costs",
)
COMMANDS = (vector_trace, vector_replay, vector_stats, vector_costs)
