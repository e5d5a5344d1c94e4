# SPDX-License-Identifier: GPL-2.0-or-later
"""Results that are tables, as documents of a page: an ablation, and a check of budgets."""

from collections.abc import Mapping
from typing import Any

from kentry.results.ablation import Ablation
from kentry.results.check import OVER, UNDECIDED, Check
from kentry.show.check import row_sentence
from kentry.show.html.page import Document, kernel_facts, name_of


def ablation_document(found: Ablation, document: Mapping[str, Any]) -> Document:
    """What each option adds to each case."""
    names = list(dict.fromkeys(name for row in found.rows for name in row.cases))
    known = [row for row in found.rows if row.cases]
    kernel = name_of(found.base.kernel)
    return Document(
        template="rows.html",
        title=f"What config options add: {kernel}",
        summary=f"{len(known)} of {len(found.rows)} options measured on {len(names)} cases",
        json=document,
        values={
            "options": found.rows,
            "cases": names,
            "passed_over": found.passed_over,
            "checks": (),
        },
        caveats=found.caveats,
        facts=kernel_facts(found.base.kernel, found.base.target),
    )


def check_document(found: Check, document: Mapping[str, Any]) -> Document:
    """Each budget with what was measured and the verdict."""
    over, undecided = (sum(row.verdict == one for row in found.rows) for one in (OVER, UNDECIDED))
    facts = kernel_facts(found.measured.kernel, found.measured.target)
    facts.append(("budgets", found.budgets))
    if found.baseline:
        facts.append(("baseline", name_of(found.baseline.kernel)))
    return Document(
        template="rows.html",
        title=f"Budgets: {name_of(found.measured.kernel)}",
        summary=f"{found.verdict}: of {len(found.rows)} budgets {over} over, {undecided} undecided",
        json=document,
        values={
            "options": (),
            "cases": (),
            "passed_over": (),
            "checks": [(row, row_sentence(row)) for row in found.rows],
        },
        caveats=found.caveats,
        facts=facts,
    )
