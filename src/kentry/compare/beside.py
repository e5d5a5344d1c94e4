# SPDX-License-Identifier: GPL-2.0-or-later
"""What a comparison's page shows beside its numbers: both paths of each case, and the samples."""

from msgspec.structs import replace

from kentry.arch import find_arch
from kentry.path.pairs import pack_pairs
from kentry.results.comparison import Comparison
from kentry.results.recording import Recording
from kentry.stats.exact import SAME


def with_paths_and_samples(comparison: Comparison, old: Recording, new: Recording) -> Comparison:
    """Returns the comparison of two recordings with both sides' paths and values of processes."""
    # They load numpy, which counts do not need.
    from kentry.compare.path_diff import modal_paths
    from kentry.results.samples import distribution

    pairs = {
        row.name: pair
        for row in comparison.cases
        if not (row.identical_path and row.verdict == SAME)
        and (pair := modal_paths(row.name, old, new))
    }
    if pairs:
        packed = pack_pairs(pairs, find_arch(new.kernel["arch"]))
        comparison = replace(comparison, modal_paths=packed)
    both = {
        row.name: (before.noisy, after.noisy)
        for row in comparison.timed
        if (before := old.case(row.name)) and (after := new.case(row.name))
    }
    if both:
        distributions = {
            name: {
                metric: (distribution(one), distribution(after[metric]))
                for metric, one in before.items()
                if metric in after
            }
            for name, (before, after) in both.items()
        }
        comparison = replace(comparison, distributions=distributions)
    return comparison
