# SPDX-License-Identifier: GPL-2.0-only
"""Commands are found in pages with the comments that state who runs them."""

import contextlib
import io
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from host import base_file, pages, results
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

| change | then |
|---|---|
| one | `make a`; `lab/run x`, `lab/README.md`, `b`, `make` |
| two | `make b` <!-- run: 0 or 1 --> |
| three | no command |
| four | `make c <!-- run -->` |
"""


def find(text):
    """Return line, action, value and commands of each block of a page with this text."""
    return [(block.number, block.action, block.value, block.lines)
            for block in pages.find_blocks(text, "README.md")]


class Blocks(unittest.TestCase):
    """find_blocks()"""

    def test_blocks_and_rows(self):
        """Blocks of commands and rows with commands are found with their comments."""
        self.assertEqual(find(PAGE), [
            (4, "run", None, ["make a \\", "    b    # comment"]),
            (10, None, None, ["undocumented"]),
            (14, "run by", "series", ["kill"]),
            (26, None, None, ["format"]),
            (31, None, None, ["make a", "lab/run x"]),
            (32, "run", "0 or 1", ["make b"]),
            (34, None, None, ["make c <!-- run -->"])])

    def test_who_runs_a_block(self):
        """A block without a word is for the default base, one with a word for that base or
        argument."""
        block, = pages.find_blocks("<!-- run by: modules -->\n    a\n")
        self.assertTrue(block.is_run_by("modules"))
        self.assertTrue(block.is_run_by("modules", base_file.DEFAULT, "--brief"))
        self.assertFalse(block.is_run_by("modules", "5.10"))
        self.assertFalse(block.is_run_by("series"))
        block, = pages.find_blocks("<!-- run by: modules 6.12 -->\n    a\n")
        self.assertTrue(block.is_run_by("modules", "6.12"))
        self.assertFalse(block.is_run_by("modules"))
        self.assertFalse(block.is_run_by("modules", base_file.DEFAULT))
        for comment in "<!-- run -->", "<!-- not run: modules -->":
            block, = pages.find_blocks(f"{comment}\n    a\n")
            self.assertFalse(block.is_run_by("modules"))


class Repository(unittest.TestCase):
    """Base class: a repository with one page."""

    def setUp(self):
        self.top = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.enterContext(mock.patch.object(pages, "TOP", self.top))

    def write(self, text):
        """Write README.md, and return the blocks of all pages."""
        (self.top / "README.md").write_text(text)
        return pages.read_all()


class Pages(Repository):
    """check_block()"""

    def check(self, text, **checks):
        """Return whether the blocks of a page with this text pass; checks: their texts."""
        files = {}
        for name, content in checks.items():
            files[name] = self.top / name
            files[name].write_text(content)
        found = mock.Mock()
        for block in self.write(text):
            documented_commands.check_block(found, block, self.top, files)
        return [call.args[1] for call in found.report.call_args_list]

    def test_block_without_comment_fails(self):
        self.assertEqual(self.check("\n    make\n"), [False])
        self.assertEqual(self.check("| a | `make x` |\n"), [False])

    def test_comment_without_command_fails(self):
        self.assertEqual(self.check("| a | text <!-- run --> |\n"), [False])

    def test_check_that_runs_something_else_fails(self):
        """A check that is named has to exist and to run the commands of pages."""
        for text in "<!-- run by: series -->\n    make\n", "| `make x` <!-- run by: series --> |\n":
            self.assertEqual(self.check(text), [False])
            self.assertEqual(self.check(text, series="run make\n"), [False])
            self.assertEqual(self.check(text, series="run_marked\n"), [True])

    def test_reason_is_required(self):
        self.assertEqual(self.check("<!-- not run -->\n    make\n"), [False])
        self.assertEqual(self.check("<!-- not run: x -->\n    make\n"), [True])

    def test_failing_command_fails(self):
        self.assertEqual(self.check("<!-- run -->\n    false\n    true\n"), [False])
        self.assertEqual(self.check("<!-- run -->\n    true\n"), [True])
        self.assertEqual(self.check("<!-- run: 0 or 1 -->\n    false\n"), [True])
        self.assertEqual(self.check("<!-- run: 0 or 1 -->\n    exit 2\n"), [False])


class Marked(Repository):
    """Checks that run the blocks of pages."""

    def run_marked(self, text, *words):
        """Run the blocks of a page that are marked for a check; return what it prints."""
        self.write(text)
        found = results.Results()
        with contextlib.redirect_stdout(io.StringIO()) as out, mock.patch.object(
                pages, "run", lambda block: block.lines[0].count("false")):
            pages.run_marked(found, *words, run_one=pages.run)
        return out.getvalue().splitlines()

    def test_results(self):
        """Each block is a result with the name of its place."""
        lines = self.run_marked("<!-- run by: a -->\n    true\n\n<!-- run by: a -->\n    false\n\n"
                                "<!-- run by: b -->\n    true\n", "a")
        self.assertEqual([line.split()[:4] for line in lines if not line.startswith("#")],
                         [["ok", "-", "README.md:2", "true"], ["not", "ok", "-", "README.md:5"]])

    def test_no_block(self):
        """A check that no page names is an error: the comment was removed or is wrong."""
        with self.assertRaisesRegex(base_file.Invalid, "no page has a block with <!-- run by: c 1 "):
            self.run_marked("<!-- run by: a -->\n    true\n", "c", "1")

    def test_missing_results(self):
        """The results of the blocks that a check was to run are demanded."""
        self.write("<!-- run by: a -->\n    true\n\n<!-- run by: a 6.12 -->\n    true\n")

        def find_missing(*words, names=()):
            return [block.name for block in pages.find_missing("a", words, names)]

        self.assertEqual(find_missing(), ["README.md:2"])
        self.assertEqual(find_missing("6.12"), ["README.md:5"])
        self.assertEqual(find_missing(names=["README.md:2"]), [])
