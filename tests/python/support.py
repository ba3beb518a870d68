"""What the tests of the package share."""

import contextlib
import unittest

import braid


class TestCase(unittest.TestCase):
    @contextlib.contextmanager
    def refused(self, code, *words):
        """The block raises the braid.Error of this number, "BR0723", with all words in its text."""
        with self.assertRaises(braid.Error) as caught:
            yield
        error = caught.exception
        self.assertEqual(f"BR{error.code:04}", code, str(error))
        for word in words:
            self.assertIn(word, str(error))
        self.assertTrue(error.hint, f"no hint: {error}")
