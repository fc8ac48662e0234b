"""Arrays in several safetensors files, with an index that names the file of each.

``model.safetensors.index.json`` is ``{"metadata": {…}, "weight_map": {"name": "model-00001-of-00002.safetensors"}}``.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Generator
from pathlib import Path
from typing import Any, cast

from hybridc.array_files.contents import ArrayFile, damaged
from hybridc.array_files.safetensors_format import scan


@contextlib.contextmanager
def opened(where: str) -> Generator[ArrayFile]:
    """The arrays of all files that an index names, which are beside it."""
    files = _weight_map(where)
    with contextlib.ExitStack() as stack:
        shards = {
            name: scan(stack.enter_context(Path(where).with_name(name).open("rb")), str(Path(where).with_name(name)))
            for name in dict.fromkeys(files.values())
        }
        arrays = {(shard, x.name): x for shard, contents in shards.items() for x in contents.arrays}
        absent = [name for name, shard in files.items() if (shard, name) not in arrays]
        if absent:
            raise damaged(where, f"array {absent[0]!r} is not in {files[absent[0]]}, as it says")
        metadata = {key: text for contents in shards.values() for key, text in contents.metadata.items()}
        yield ArrayFile([arrays[shard, name] for name, shard in files.items()], True, metadata)


def _weight_map(where: str) -> dict[str, str]:
    """The name of the file of each array."""
    try:
        content: Any = json.loads(Path(where).read_bytes().decode())
        files = content["weight_map"]
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise damaged(where, f"it is not JSON with a weight_map: {error}") from error
    if not isinstance(files, dict):
        raise damaged(where, "its weight_map must give the file of each array")
    for name, file in cast("dict[str, Any]", files).items():
        if not isinstance(file, str) or not file or Path(file).name != file or "\0" in file:
            raise damaged(where, f"the file of array {name!r} must be one beside it, got {file!r}")
    return cast("dict[str, str]", files)
