"""What a user may do wrong: each time an exception with number and hint, and the session goes on."""

import array
import copy
import json
import os
import pathlib
import pickle
import tempfile
import types
import unittest

import numpy as np

import braid
import models
from support import TestCase

X = np.ones((4, 3), np.float32)
Y = models.linear_result(X)


def session_of(program):
    return program.session(device="emulated") if program.target == "cuda" else program.session(threads=1)


class Calling:
    """A tensor that does something while it is asked for its memory."""

    def __init__(self, action, memory=X):
        self.action, self.memory = action, memory

    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack__(self, **options):
        self.action()
        return self.memory.__dlpack__(**options)


class Hostile(TestCase):
    @classmethod
    def setUpClass(cls):
        cls.programs = [
            braid.compile(models.linear(), dims={"batch": (0, 8)}, target=target)
            for target in ("cpu", "interpreter", "cuda")
        ]

    def each(self):
        for program in self.programs:
            with self.subTest(program.target), session_of(program) as session:
                yield session
                np.testing.assert_allclose(session.run({"x": X})["y"], Y)  # it still works

    def numbered(self, call, *codes):
        with self.assertRaises(braid.Error) as caught:
            call()
        self.assertTrue(caught.exception.hint, f"no hint: {caught.exception}")
        if codes:
            self.assertIn(caught.exception.code, codes, str(caught.exception))

    def test_shapes(self):
        for session in self.each():
            for shape in ((), (3,), (1, 1, 1, 4, 3), (1,) * 64, (4, 0), (0, 0), (3, 4), (9, 3)):
                self.numbered(lambda: session.run({"x": np.zeros(shape, np.float32)}), 302, 305, 701, 723, 724)
                self.numbered(lambda: session.output_shapes({"x": np.zeros(shape, np.float32)}), 302, 305, 701, 723, 724) if shape == (9, 3) else None  # fmt: skip
            self.assertEqual(session.run({"x": X[:0]})["y"].shape, (0, 2))
            self.numbered(lambda: session.run({"x": np.float32(3)}), 701, 723)

    def test_types_and_layouts(self):
        wrong = ("O", "U5", "S4", "M8[s]", "m8[s]", "V4", "g", "F", "?", "i8", [("a", "f4")], ">f4", "f2")
        for session in self.each():
            for dtype in wrong:
                value = np.zeros((4, 3), dtype)
                self.numbered(lambda: session.run({"x": value}), 723)
                self.numbered(lambda: session.run({"x": X}, out={"y": np.zeros((4, 2), dtype)}), 723)
                converts = value.dtype.kind in "?bif"
                if converts:
                    session.run({"x": value}, copy=True)
                else:
                    self.numbered(lambda: session.run({"x": value}, copy=True), 731)
            broadcast = np.broadcast_to(np.float32(1), (4, 3))
            self.numbered(lambda: session.run({"x": broadcast}), 731)
            np.testing.assert_allclose(session.run({"x": broadcast}, copy=True)["y"], Y)
            for out in (np.broadcast_to(np.float32(1), (4, 2)), np.zeros((4, 4), "f4")[:, ::2], X.ravel()[:8].reshape(4, 2)):
                self.numbered(lambda: session.run({"x": X}, out={"y": out}), 731)
            for out in (np.zeros((4, 2, 1), "f4"), np.zeros(8, "f4"), bytes(32), bytearray(32)):
                self.numbered(lambda: session.run({"x": X}, out={"y": out}), 701, 723)

    def test_objects_that_are_no_tensors(self):
        released = memoryview(X)
        released.release()
        for session in self.each():
            for value in (None, 3.0, "x", [1.0], object(), np, np.ndarray, braid.Tensor, session, released, range(3)):
                for with_copy in (False, True):
                    self.numbered(lambda: session.run({"x": value}, copy=with_copy), 730)
                self.numbered(lambda: session.run({"x": X}, out={"y": value}), 730)
            for out in ([X], 3, X, "y", types.MappingProxyType({})):
                self.numbered(lambda: session.run({"x": X}, out=out), 730)
            self.numbered(lambda: session.run({"x": bytes(48)}), 723)
            self.numbered(lambda: session.run({"x": array.array("f", [1] * 12)}), 701, 723)
            for call in (
                lambda: session.run(None),
                lambda: session.run([X]),
                lambda: session.run({"x": X}, {"y": X}),
                lambda: session.run({"x": X}, copy=7),
                lambda: session.output_shapes(3),
                lambda: braid.Session(),
                lambda: braid.Session.__new__(braid.Session).run({"x": X}),
                lambda: session.__init__(),
                lambda: braid.Tensor.__new__(braid.Tensor).numpy(),
                lambda: braid.Tensor.__new__(braid.Tensor).__dlpack__(),
                lambda: pickle.dumps(session),
                lambda: copy.deepcopy(session.run({"x": X})["y"]),
                lambda: session.run({"x": X})["y"].__dlpack__(bogus=1),
                lambda: session.run({"x": X})["y"].__dlpack__(max_version="x"),
            ):
                with self.assertRaises(TypeError):
                    call()

    def test_tensors_that_act_while_they_are_asked(self):
        for program in self.programs:
            session = session_of(program)
            self.numbered(lambda: session.run({"x": Calling(session.close)}), 732)
            inputs = {}
            inputs["x"] = Calling(inputs.clear)
            self.numbered(lambda: session.run(inputs), 6)
            out = {}
            out["y"] = Calling(out.clear, np.zeros((4, 2), np.float32))
            self.numbered(lambda: session.run({"x": X}, out=out), 6)
            with self.assertRaises(SystemExit):
                session.run({"x": Calling(exit)})
            np.testing.assert_allclose(session.run({"x": X})["y"], Y)
            session.close()
            for call in (lambda: session.run({"x": X}), lambda: session.output_shapes({"x": X}), lambda: session.rank):
                self.numbered(call, 733)

    def test_scalars(self):
        for target in ("cpu", "interpreter", "cuda"):
            with session_of(braid.compile(models.elementwise(shape=()), target=target)) as session:
                for value in (np.float32(3), np.array(3, np.float32)):
                    y = session.run({"x": value})["y"]
                    self.assertEqual((y.shape, float(y.numpy())), ((), 6.0))
                self.numbered(lambda: session.run({"x": np.ones(1, np.float32)}), 701, 723)

    def test_options(self):
        model = models.linear(4)
        for options in (
            {"ranks": 0}, {"ranks": 1e3}, {"dims": {"batch": 2**70}}, {"dims": {"batch": (5, 2)}}, {"dims": ["batch"]}, {"dims": {5: 2}},
            {"target": 5}, {"target": "gpu"}, {"passes": 5}, {"aliases": {"q": "x"}}, {"aliases": ["q"]}, {"plugins": ["/nope.so"]},
            {"bindable": {"x": object()}}, {"bindable": 3}, {"name": ""}, {"name": "a" * 300}, {"output": __file__},
            {"output": "/proc/x/y"}, {"output": 3}, {"memory_cap": -1}, {"memory_cap": 1.5}, {"machine": "none"}, {"devices": 0},
        ):  # fmt: skip
            with self.subTest(options):
                try:
                    self.numbered(lambda: braid.compile(model, **options))
                except AssertionError:
                    if options not in ({"name": ""}, {"memory_cap": -1}):  # these mean: none
                        raise
        for value in (None, 3, b"", b"x", "/", "/dev/null", [], object()):
            self.numbered(lambda: braid.compile(value))
            self.numbered(lambda: braid.InferenceSession(value))
            self.numbered(lambda: braid.explain(value)) if value != "/" else None
            self.numbered(lambda: braid.load(value))
            self.numbered(lambda: braid.check(value))
        self.numbered(braid.check, 3)

    def test_feeds_of_an_inference_session(self):
        session = braid.InferenceSession(models.linear().SerializeToString(), target="interpreter")
        for feed in (None, [X], {}, {"x": None}, {"x": object()}, {"x": "abc"}, {"x": [[1], [1, 2]]}, {"x": X[0]}, {"z": X}, {5: X}):
            self.numbered(lambda: session.run(None, feed))
        for names in ([5], "y", ["y", None]):
            self.numbered(lambda: session.run(names, {"x": X}), 6)
        np.testing.assert_allclose(session.run(None, {"x": X.tolist()})[0], Y)

    def test_folders_that_are_no_programs(self):
        for target in ("cpu", "cuda"):
            with tempfile.TemporaryDirectory() as temporary:
                folder = pathlib.Path(temporary, "line")
                session_of(braid.compile(models.linear(4), output=folder, name="line", target=target)).close()
                file = folder / "manifest.json"
                whole = json.loads(file.read_text())

                def use():
                    program = braid.load(folder)
                    with session_of(program) as session:
                        session.run({"x": X})

                use()
                damages = [(name, None) for name in whole] + [(name, value) for name in whole for value in (5, "x", [], {})]
                for name, value in damages:
                    damaged = dict(whole)
                    if value is None:
                        del damaged[name]
                    else:
                        damaged[name] = value
                    file.write_text(json.dumps(damaged))
                    for call in (use, lambda: str(braid.explain(folder))):
                        with self.subTest(name, value=value, target=target):
                            try:
                                call()
                            except braid.Error as error:
                                self.assertTrue(error.hint, str(error))
                for key, value in (("name", 7), ("dtype", "q9"), ("dtype", 3), ("shape", None), ("shape", ["a"] * 9)):
                    damaged = json.loads(json.dumps(whole))
                    damaged["inputs"][0][key] = value
                    file.write_text(json.dumps(damaged))
                    for call in (use, lambda: str(braid.explain(folder))):
                        try:
                            call()
                        except braid.Error as error:
                            self.assertTrue(error.hint, str(error))
                damaged = dict(whole, inputs=whole["inputs"] * 2)
                file.write_text(json.dumps(damaged))
                self.numbered(use, 721)
                for text in (b"", b"[1]", b"\xff\xfe", b"{", b"null"):
                    file.write_bytes(text)
                    self.numbered(use, 8)
                    self.numbered(lambda: braid.explain(folder), 8)
                file.unlink()
                os.mkfifo(file)
                self.numbered(use, 8)


if __name__ == "__main__":
    unittest.main()
