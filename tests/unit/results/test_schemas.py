# SPDX-License-Identifier: GPL-2.0-or-later
"""The shipped schemas are those of the structs."""

import pytest

from kentry.results.schemas import schemas
from tests import ROOT


@pytest.mark.parametrize(("name", "text"), schemas().items(), ids=schemas())
def test_a_shipped_schema_is_generated_from_the_structs(name: str, text: str) -> None:
    """`python -m kentry.results.schemas schema` renews them."""
    assert (ROOT / "schema" / name).read_text() == text
