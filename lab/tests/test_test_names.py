# SPDX-License-Identifier: GPL-2.0-only
"""Each result of a selftest is a statement that makes sense without the line above it."""

import re
import unittest

from tools import TOP

SELFTESTS = TOP / "tools/testing/selftests/kvm"
# A call that reports a result; the text of a skipped one is its reason.
CALL = re.compile(r"\b(?:ok|ok_alone|bad|bad_\w+|expect|ksft_test_result(?:_pass)?)\((.*?)\);", re.S)
# The name is the first literal with a space; conditions contain only words.
NAME = re.compile(r'"((?:\\.|[^"\\\n])* (?:\\.|[^"\\\n])*)"')
# A name that starts with such a word continues another one. A label may precede a name.
CONTINUATION = re.compile(
    r"(?:^|: )(?:and|or|nor|but|so|then|too|it|its|they|their|them|those|these|that|this|"
    r"whose|who|which|not?|none|before|after|of|to|from|with|without|as)\b")


def find_names(text):
    """Return the names of all results in the source of a test."""
    return [name[1] for call in CALL.finditer(text) if (name := NAME.search(call[1]))]


def read_sources():
    """Return the source of each selftest, and the lines that each patch adds, by path."""
    found = {path: path.read_text() for path in SELFTESTS.rglob("*.c")}
    for path in (TOP / "patches").rglob("*.patch"):
        found[path] = "\n".join(line[1:] for line in path.read_text().splitlines()
                                if line.startswith("+"))
    return found


class Names(unittest.TestCase):
    """The names of results."""

    maxDiff = None

    def test_statements(self):
        """No name starts with a word that continues the line above."""
        continued = [f"{path.relative_to(TOP)}: {name}" for path, text in read_sources().items()
                     for name in find_names(text) if CONTINUATION.search(name)]
        self.assertEqual(continued, [])

    def test_found(self):
        """The names are found behind conditions, labels and literals of other arguments."""
        names = find_names('ok(poll(&fd, 1) == 1 &&\n   find(p, "exits"),\n   "%s: it is %s", a);\n'
                           'ksft_test_result_pass("vm is\\n");\nok(x, "a \\"b\\" c");')
        self.assertEqual(names, ["%s: it is %s", "vm is\\n", 'a \\"b\\" c'])
        self.assertEqual([name for name in names if CONTINUATION.search(name)], names[:1])
        self.assertGreater(sum(len(find_names(text)) for text in read_sources().values()), 350)
