"""What is said when something goes wrong in a hybridized network: every message, in ``messages.txt``.

Where a message names a line of ``cases.py``, the file shows that line itself in its place: «return z + y». Where one
lists the operators that are registered, it shows those of ``cases.py``, whatever other tests registered before.
``python tests/errors/test_messages.py`` writes it anew.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import pytest

from hybridc.ground.display.tracebacks import own_notes
from tests.errors import cases

SOURCE = Path(cases.__file__).resolve()
MESSAGES = Path(__file__).with_name("messages.txt")


def is_ours(quoted):
    """Whether ``cases.py`` registers a custom operator of this name, which a message shows in quotes."""
    return f'@mx.operator.register("{quoted[1:-1]}")' in SOURCE.read_text()


def message(name):
    """The message of a case, with what its notes say, and lines in place of their numbers."""
    try:
        cases.CASES[name]()
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        text = "\n".join([text, *(f"note: {note}" for note in own_notes(error))])
    else:
        text = "no error"
    lines = SOURCE.read_text().splitlines()
    text = re.sub(r"(?<=\(registered: )('[^']*'(, )?)*", lambda m: ", ".join(filter(is_ours, m[0].split(", "))), text)
    return re.sub(re.escape(str(SOURCE)) + r":(\d+)", lambda m: f"«{lines[int(m[1]) - 1].strip()}»", text)


def known():
    """The messages of the file."""
    parts = re.split(r"^== (\w+)\n", MESSAGES.read_text(), flags=re.MULTILINE)[1:]
    return {name: text.strip() for name, text in zip(parts[::2], parts[1::2], strict=True)}


@pytest.mark.parametrize("name", cases.CASES)
def test_message(name):
    assert message(name) == known()[name]


def test_no_message_is_of_a_case_that_is_gone():
    assert known().keys() == cases.CASES.keys()


if __name__ == "__main__":
    MESSAGES.write_text("\n".join(f"== {name}\n{message(name)}\n" for name in cases.CASES))
