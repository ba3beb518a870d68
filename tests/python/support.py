"""What the tests of the package share."""

import contextlib
import faulthandler
import unittest

import numpy as np

import braid
import models


# Longer than any test, and shorter than ctest's limit.
LIMIT_SECONDS = 200


class TestCase(unittest.TestCase):
    def run(self, result=None):
        """A test that hangs ends the process with the stacks of all threads."""
        faulthandler.dump_traceback_later(LIMIT_SECONDS, exit=True)
        try:
            return super().run(result)
        finally:
            faulthandler.cancel_dump_traceback_later()

    @contextlib.contextmanager
    def refused(self, code, *words):
        """The block raises the braid.Error of this number, "BR0723", with all words in its text."""
        with self.assertRaises(braid.Error) as caught:
            yield caught
        error = caught.exception
        self.assertEqual(f"BR{error.code:04}", code, str(error))
        for word in words:
            self.assertIn(word, str(error))
        self.assertTrue(error.hint, f"no hint: {error}")


class LinearTestCase(TestCase):
    """Sessions of one small program, compiled and interpreted."""

    @classmethod
    def setUpClass(cls):
        cls.programs = {
            target: braid.compile(models.linear(), dims={"batch": (1, 8)}, target=target)
            for target in ("cpu", "interpreter")
        }
        cls.x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
        cls.y = models.linear_result(cls.x)

    def sessions(self):
        for program in self.programs.values():
            with program.session() as session:
                yield session
