"""The text of C++ files: comments, functions, and what comments must not say."""

import re
from typing import NamedTuple

# Literals and comments; comments are replaced by spaces of the same number of lines.
LITERAL_OR_COMMENT = re.compile(
    r'R"([^()\\ ]{0,16})\((?:.|\n)*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])*\'|//[^\n]*|/\*(?:.|\n)*?\*/'
)
NO_FUNCTION = re.compile(r"^\s*(?:namespace|class|struct|enum|union|extern)\b|=\s*$")


def long_functions(text):
    """(lines, first line) of each function, of its signature and body; lambdas and local classes count as part of theirs."""
    code = LITERAL_OR_COMMENT.sub(lambda m: "\n" * m.group(0).count("\n"), text)
    code = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", lambda m: "\n" * m.group(0).count("\n"), code, flags=re.MULTILINE)
    found, header, function, depth = [], 0, None, 0
    for at, c in enumerate(code):
        if c == "{":
            if function is None and "(" in code[header:at] and not NO_FUNCTION.search(code[header:at]):
                begin = header + len(code[header:at]) - len(code[header:at].lstrip())
                function, depth = begin, 0
            depth += function is not None
        elif c == "}" and function is not None:
            depth -= 1
            if depth == 0:
                found.append((code.count("\n", function, at) + 1, code.count("\n", 0, function) + 1))
                function = None
        if c in "{};" and function is None:
            header = at + 1
    return found


class Comment(NamedTuple):
    line: int  # of the file, from 1
    end: int  # its last column
    text: str


def comments(text):
    """The comments that begin with //, line by line."""
    found = []
    for m in LITERAL_OR_COMMENT.finditer(text):
        if m.group(0).startswith("//"):
            column = m.end() - text.rfind("\n", 0, m.start()) - 1
            found.append(Comment(text.count("\n", 0, m.start()) + 1, column, m.group(0)[2:].strip()))
    return found


# Words of docs/style.md that comments avoid.
WORDS = re.compile(r"\b(?:nobody|whoever|somebody|who|alike|for ever|in front of)\b", re.IGNORECASE)
