# SPDX-License-Identifier: GPL-2.0-or-later
"""A JSON file of kentry, from anyone: types are checked, and no text can move a cursor."""

import gc
import json
import math
import re
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_type_hints

import msgspec
from msgspec import UNSET, Meta, Struct
from msgspec.structs import fields

from kentry.errors import ContradictionError, RecordingError, UserError
from kentry.host.cache import read_bytes
from kentry.progress import printable

# Every count fits in 64 bits, so that it can be divided as a float.
_MOST = (1 << 63) - 1
Count = Annotated[int, Meta(ge=0, le=_MOST)]
Positive = Annotated[int, Meta(ge=1, le=_MOST)]
Number = Annotated[int, Meta(ge=0)] | Annotated[float, Meta(ge=0)]
Confidence = Annotated[float, Meta(gt=0, lt=1)]
Hash = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]

# No file seen so far has more than an eighth of it; bytes.
MOST_BYTES = 128 << 20
# Values in a file, of which the largest seen has 2.9 million: an empty array of 3 bytes takes 64.
_MOST_VALUES = 16 << 20
# How much of an error inside a file is shown; characters.
_ERROR_LENGTH = 200
_PRINTABLE = bytes([*range(0x20, 0x7F), *b"\t\n\r"])
# Down to this depth, each item of an array or object has its own line.
_DUMP_DEPTH = 3


def schema_of(file: Path, content: bytes | None = None) -> str:
    """Returns the schema that a JSON file, or its `content`, names; empty where it is no such."""
    try:
        return str(_load(file, "file", "", content)[0].get("schema"))
    except RecordingError:
        return ""


File = TypeVar("File", bound=Struct)


def read_document(
    file: Path,
    form: type[File],
    remedy: str,
    content: bytes | None = None,
    *,
    printable: bool = True,
) -> File:
    """Returns the document in `file`, of the schema of `form` or an older one; RecordingError."""
    # With `content`, the file is only named: that was read before.  Without `printable` texts may
    # have control characters: some kinds have a tool's last lines.
    # Millions of new objects are alive until the end, so looking for garbage among them is in vain.
    gc.disable()
    try:
        return _read(file, form, remedy, content, printable)
    finally:
        gc.enable()


def _read(
    file: Path, form: type[File], remedy: str, content: bytes | None, printable: bool
) -> File:
    schema = str(form.__struct_config__.tag)
    kind, _, known = schema.rpartition("/")
    what = kind.rpartition("/")[2]
    document, may_be_unprintable = _load(file, what, remedy, content)
    checksum = document.pop("checksum", None)
    own = document.get("schema")
    if not isinstance(own, str) or not own.startswith(f"{kind}/"):
        raise RecordingError(
            f"{file} is not a {what}: its schema is {own!r}, not {schema}.", remedy
        )
    version = own.removeprefix(f"{kind}/")
    if not re.fullmatch(r"[1-9][0-9]{0,8}", version) or int(version) > int(known):
        raise RecordingError(
            f"{file} has schema {own!r}; this kentry reads up to {schema}.", "Use a newer kentry."
        )
    keys = [field.encode_name for field in fields(form)]
    # A file without a checksum, or with another name for it, is older than any key unknown here.
    lost = checksum is None and "checksum" in keys and not document.keys() <= {"schema", *keys}
    if lost or (checksum is not None and checksum != checksum_of(document)):
        raise RecordingError(
            f"{file} was damaged: it does not have the checksum of its content.", remedy
        )
    try:
        if printable and may_be_unprintable:
            _check_printable(document, "$")
        return msgspec.convert(document, form)
    except ContradictionError as err:
        raise RecordingError(
            f"{file}: {printable_error(err.sentence)}", f"{remedy} {err.remedy}".strip()
        ) from err
    except (msgspec.ValidationError, ValueError, OverflowError) as err:
        raise RecordingError(
            f"{file} is not a whole {what}: {printable_error(err)}.", remedy
        ) from err


def _load(file: Path, what: str, remedy: str, content: bytes | None) -> tuple[dict[str, Any], bool]:
    named = f"Name a {what}'s file."
    try:
        raw = read_bytes(file, named, MOST_BYTES + 1) if content is None else content
    except UserError as err:
        raise RecordingError(err.sentence, err.remedy) from err
    if raw.startswith(b"PAR1"):
        raise RecordingError(
            f"{file} is not a {what}: it is a Parquet file, as a trace is.",
            "kentry vector stats and kentry vector replay read traces.",
        )
    if len(raw) > MOST_BYTES:
        raise RecordingError(
            f"{file} is not a {what}: it has more than {MOST_BYTES >> 20} MiB.", named
        )
    # A value has a byte at least, so few files are counted.
    if len(raw) > _MOST_VALUES and sum(map(raw.count, (b",", b"[", b"{"))) > _MOST_VALUES:
        raise RecordingError(
            f"{file} is not a {what}: it has more than {_MOST_VALUES:,} values.", named
        )
    try:
        document = json.loads(
            raw, parse_constant=_refuse, parse_float=_finite, object_pairs_hook=_object
        )
    except (ValueError, RecursionError) as err:
        raise RecordingError(
            f"{file} is not a {what}, or is cut short: {printable_error(err)}.", remedy
        ) from err
    if not isinstance(document, dict):
        raise RecordingError(f"{file} is JSON, but not a {what}.", remedy)
    # Nearly every file is of printable ASCII without escapes, which its bytes show at once.
    plain = not raw.translate(None, _PRINTABLE) and b"\\" not in raw.replace(b'\\"', b"")
    return document, not plain


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not a number")


def _finite(text: str) -> float:
    if math.isfinite(number := float(text)):
        return number
    raise ValueError(f"{text[:20]} is not a finite number")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("a name stands twice in one object")
    return members


def printable_error(err: Exception | str) -> str:
    """Returns the beginning of an error's text, which may repeat what a file has."""
    return printable(str(err)[:_ERROR_LENGTH])


def _check_printable(value: Any, path: str) -> None:
    if isinstance(value, str):
        if not value.isprintable():
            raise ValueError(f"{value!r} is not printable text - at `{path}`")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _check_printable(item, f"{path}[{index}]")
    elif isinstance(value, dict):
        for name, item in value.items():
            _check_printable(name, path)
            _check_printable(item, f"{path}.{name}")


# Marks a field that a result has in memory only: it is in no file and in no schema.
UNWRITTEN = Meta(extra_json_schema={"unwritten": True})
# Marks a field that a file leaves out where it has its default, which says nothing.
OMITTED = Meta(extra_json_schema={"omitted": True})


def checksum_of(document: dict[str, Any]) -> str:
    """A hash of a document's content, which does not depend on spaces and the order of keys."""
    return sha256(msgspec.json.encode(document, order="deterministic")).hexdigest()


def with_checksum(document: dict[str, Any]) -> dict[str, Any]:
    """Returns a document with a checksum of its content, which the reader compares."""
    first = {"schema": document["schema"], "tool": document["tool"]}
    return first | {"checksum": checksum_of(document)} | document


def to_json(value: Any) -> Any:
    """Returns a struct, or structs in lists and dicts, as the lists, dicts and scalars of JSON."""
    if isinstance(value, Struct):
        config = value.__struct_config__
        document = {config.tag_field: config.tag} if config.tag_field else {}
        for name, key, left_out in _fields(type(value)):
            item = getattr(value, name)
            if item is not UNSET and item != left_out:
                document[key] = to_json(item)
        return document
    if isinstance(value, dict):
        return {name: to_json(item) for name, item in value.items()}
    return [to_json(item) for item in value] if isinstance(value, list | tuple) else value


@cache
def _fields(form: type[Struct]) -> list[tuple[str, str, Any]]:
    hints = get_type_hints(form, include_extras=True)
    marks = {name: getattr(hint, "__metadata__", ()) for name, hint in hints.items()}
    written = []
    for item in fields(form):
        if UNWRITTEN not in marks[item.name]:
            empty = item.default_factory() if callable(item.default_factory) else item.default
            left_out = empty if OMITTED in marks[item.name] else UNSET
            written.append((item.name, item.encode_name, left_out))
    return written


def about(text: str, **limits: Any) -> Meta:
    """Returns what the JSON schema says of a field, and its limits."""
    return Meta(description=text, **limits)


def dump(document: Any) -> str:
    """Writes a struct or its JSON as text, a line per item down to a depth: it suits text diffs."""

    def lines(value: Any, depth: int) -> str:
        if depth == _DUMP_DEPTH or not isinstance(value, dict | list) or not value:
            return json.dumps(value, allow_nan=False)
        separator = ",\n" + " " * (depth + 1)
        if isinstance(value, dict):
            rows = [f"{json.dumps(key)}: {lines(item, depth + 1)}" for key, item in value.items()]
            opening, closing = "{}"
        else:
            rows = [lines(item, depth + 1) for item in value]
            opening, closing = "[]"
        return f"{opening}{separator[1:]}{separator.join(rows)}\n{' ' * depth}{closing}"

    return lines(to_json(document) if isinstance(document, Struct) else document, 0) + "\n"
