# SPDX-License-Identifier: GPL-2.0-only
"""Mutants of C files in kernel style: one statement is deleted, or one token, condition, constant
or returned value is changed.

The lines of a file are scanned without a parser, so some mutants do not compile. Text in
comments, strings and preprocessor lines is never changed, and lines keep their numbers.
"""

import collections
import re

SWAPS = (
    ("==", "!="), ("!=", "=="), ("<=", "<"), (">=", ">"), (" < ", " <= "), (" > ", " >= "),
    ("&&", "||"), ("||", "&&"), (" + ", " - "), (" - ", " + "), (" * ", " / "), (" / ", " * "),
    (" += ", " -= "), (" -= ", " += "), (" |= ", " = "), (" & ", " | "), (" | ", " & "),
    ("++", "--"), ("true", "false"), ("false", "true"))
TOKENS = [(re.compile(rf"\b{old}\b" if old.isalpha() else rf"(?<![-+<>=!&|]){re.escape(old)}"
                      rf"(?![=&|])" if old != "++" else r"\+\+"), new) for old, new in SWAPS]
NUMBER = re.compile(r"(?<![\w.])(\d+)(?=[UL]*\b)(?![\w.]*\.)")
NOT = re.compile(r"!(?=[\w(*])")
HIDDEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
DECLARATION = re.compile(r"\t+(?:const|static|struct|unsigned|int|u?int\d+_t|u?long|bool|s?size_t|long|"
                         r"char|void|enum|double|float|pid_t|FILE|union|break;|continue;|goto|return)\b")
LOOP = re.compile(r"\t+(?:while|for)\b")
CONDITION = re.compile(r"(\t+(?:\} else )?(?:if|while) \()(.*)(\)(?: \{)?)$")
RETURN = re.compile(r"(\t+return )(.+);$")
FUNCTION = re.compile(r"^[a-z][^;=]*?\b(\w+)\(")

# line: the number of the first changed line, from 1; was, becomes: the changed lines; function:
# the name of the function that contains them, "" outside of functions.
Mutant = collections.namedtuple("Mutant", "line function was becomes")


def hide(text):
    """Return the text with the content of comments, strings and preprocessor lines blanked."""
    text = HIDDEN.sub(lambda found: re.sub(r"[^\n]", "\x01", found[0]), text)
    return re.sub(r"^#(?:.*\\\n)*.*", lambda found: re.sub(r"[^\n]", "\x01", found[0]), text,
                  flags=re.M)


def find_end(lines, first):
    """Return the index of the last line of the statement that starts in a line, None if unknown."""
    depth, last = 0, first
    while True:
        depth += lines[last].count("(") - lines[last].count(")")
        code = lines[last].rstrip("\x01 ")
        if depth <= 0 and code.endswith((";", "{", ")")):
            break
        last += 1
        if last == len(lines) or last > first + 12:
            return None
    if code.endswith("{"):
        indent = re.match(r"\t*", lines[first])[0]
        last = next((index for index in range(last + 1, len(lines))
                     if lines[index].startswith(f"{indent}}}")), None)
        return last if last and lines[last].rstrip("\x01 ").endswith(("}", ";")) else None
    if code.endswith(")"):
        return find_end(lines, last + 1) if LOOP.match(lines[first]) else None
    return last


def list_functions(lines):
    """Return the name of the function that each line belongs to."""
    names, name = [], ""
    for line in lines:
        if found := FUNCTION.match(line):
            name = found[1]
        names.append(name)
        if line.startswith("}"):
            name = ""
    return names


def change_line(code):
    """Yield (start, end, replacement) for each changed token of a line without hidden text."""
    for pattern, new in TOKENS:
        for found in pattern.finditer(code):
            yield found.start(), found.end(), new
    for found in NOT.finditer(code):
        yield found.start(), found.end(), ""
    for found in NUMBER.finditer(code):
        for value in {int(found[1]) + 1, abs(int(found[1]) - 1)}:
            yield found.start(), found.end(), str(value)
    if (found := RETURN.match(code)) and found[2] not in ("0", "NULL", "false", "true"):
        yield found.start(2), found.end(2), "0"
    if found := CONDITION.match(code):
        for value in ("false", "true"):
            yield found.start(2), found.end(2), value
        for separator in (" && ", " || "):
            parts = found[2].split(separator)
            start = found.start(2)
            for number, part in enumerate(parts if len(parts) > 1 else []):
                end = start + len(part)
                # The last operand goes with the operator before it.
                is_last = number == len(parts) - 1
                yield (start - len(separator) * is_last, end + len(separator) * (not is_last), "")
                start = end + len(separator)


def generate(text):
    """Return the mutants of a file in the order of its lines."""
    lines, codes = text.split("\n"), hide(text).split("\n")
    functions = list_functions(codes)
    found = {}
    for index, code in enumerate(codes):
        where = index + 1, functions[index]
        if code.startswith("\t") and not DECLARATION.match(code) and \
                re.match(r"\t+[a-z*(+-]", code) and not re.match(r"\t+(if|case|default|else)\b", code):
            last = find_end(codes, index)
            if last is not None and functions[index]:
                indent = re.match(r"\t*", code)[0]
                found[Mutant(*where, "\n".join(lines[index:last + 1]),
                             f"{indent};" + "\n" * (last - index))] = None
        for start, end, new in change_line(code):
            line = lines[index]
            found[Mutant(*where, line, line[:start] + new + line[end:])] = None
    return list(found)


def apply(mutant, text):
    """Return the text of the file with the mutant."""
    lines = text.split("\n")
    count = mutant.was.count("\n") + 1
    lines[mutant.line - 1:mutant.line - 1 + count] = mutant.becomes.split("\n")
    return "\n".join(lines)


def describe(mutant):
    """Return the first changed line of a mutant, and its replacement."""
    was, becomes = (part.split("\n")[0].strip() for part in (mutant.was, mutant.becomes))
    return f"{was} -> {becomes}"
