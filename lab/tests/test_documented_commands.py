# SPDX-License-Identifier: GPL-2.0-only
"""Blocks of commands are found in a page with their comments."""

import unittest
from pathlib import Path
from unittest import mock

from tools import load

documented_commands = load("lab/checks/documented-commands")

PAGE = """\
Text

<!-- run -->
    make a \\
        b    # comment

Text
    continued, no block

    undocumented

<!-- run by: series -->
```
kill
```

```text
output
```

<!-- not run: it needs a disk -->

Text in between

```sh
format
```
"""


class Blocks(unittest.TestCase):
    """find_blocks()"""

    def test_find_blocks(self):
        self.assertEqual(documented_commands.find_blocks(PAGE), [
            (4, "<!-- run -->", ["make a \\", "    b    # comment"]),
            (10, None, ["undocumented"]),
            (14, "<!-- run by: series -->", ["kill"]),
            (26, None, ["format"])])


class Pages(unittest.TestCase):
    """check_page()"""

    def check(self, text, checks=()):
        """Return the results of a page with this text: (name, passed)."""
        found = mock.Mock()
        with mock.patch.object(documented_commands.Path, "read_text", return_value=text):
            documented_commands.check_page(found, "README.md", Path("/"), checks)
        return [call.args[1] for call in found.report.call_args_list]

    def test_block_without_comment_fails(self):
        self.assertEqual(self.check("\n    make\n"), [False])

    def test_unknown_check_fails(self):
        text = "<!-- run by: series -->\n    make\n"
        self.assertEqual(self.check(text), [False])
        self.assertEqual(self.check(text, {"series"}), [True])

    def test_reason_is_required(self):
        self.assertEqual(self.check("<!-- not run -->\n    make\n"), [False])
        self.assertEqual(self.check("<!-- not run: x -->\n    make\n"), [True])

    def test_failing_command_fails(self):
        self.assertEqual(self.check("<!-- run -->\n    false\n    true\n"), [False])
        self.assertEqual(self.check("<!-- run -->\n    true\n"), [True])
        self.assertEqual(self.check("<!-- run: 0 or 1 -->\n    false\n"), [True])
        self.assertEqual(self.check("<!-- run: 0 or 1 -->\n    exit 2\n"), [False])
