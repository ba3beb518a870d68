"""What the package raises."""

from __future__ import annotations


class Error(Exception):
    """An error in what was given: a model, an option, a tensor, a folder; or a step that failed.

    code: its number, with a section in docs/errors.md; message: what is wrong; hint: what to do, or "".
    """

    def __init__(self, code: int, message: str, hint: str = "") -> None:
        super().__init__(code, message, hint)
        self.code = code
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"BR{self.code:04}: {self.message}" + (f"\n  hint: {self.hint}" if self.hint else "")


class InternalError(RuntimeError):
    """A broken invariant of Braid itself. Please report it with the model that causes it."""
