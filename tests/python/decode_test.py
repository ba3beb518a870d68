"""Decoding with caches that grow in place: the same bits as the program that copies them, and nothing else is touched."""

import pathlib
import sys
import unittest

import numpy as np
from support import TestCase

import braid

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "models"))
import decoders  # noqa: E402

LAYERS, VOCABULARY, PROMPT, STEPS = 2, 50, 3, 20
DIMS = {"batch": (1, 2), "sequence": (1, PROMPT), "past": (0, 31)}
CAPACITY = 31 + PROMPT


def compiled(kind, in_place, target="cpu"):
    model = decoders.make_decoder(kind, layers=LAYERS, vocabulary=VOCABULARY, positions=64)
    aliases = dict(decoders.caches(LAYERS, kind)) if in_place else None
    return braid.compile(model, dims=DIMS, aliases=aliases, target=target)


def options(program):
    return {"device": "emulated"} if program.target == "cuda" else {"threads": 2}


def pairs(program):
    return [(o.name, o.name.replace("present", "past")) for o in program.outputs[1:]]


def decode_copying(program, prompt, steps):
    """Logits of every step."""
    batch = prompt.shape[0]
    feeds = {}
    for spec in program.inputs[1:]:
        feeds[spec.name] = np.zeros([{"batch": batch, "past": 0}.get(d, d) for d in spec.shape], np.float32)
    logits, tokens = [], prompt
    with program.session(**options(program)) as session:
        for _ in range(steps):
            out = session.run({"input_ids": tokens, **feeds})
            for output, name in pairs(program):
                feeds[name] = np.asarray(out[output])
            logits.append(np.array(out["logits"]))
            tokens = logits[-1][:, -1:].argmax(-1)
    return logits, feeds


class Decode(TestCase):
    def decode_in_place(self, program, prompt, steps):
        """The same, in arrays that hold NaN wherever no step has written."""
        batch, length = prompt.shape[0], 0
        memory = {s.name: np.full(s.capacities, np.nan, np.float32) for s in program.inputs[1:]}
        shapes = {s.name: s.shape for s in program.inputs[1:]}

        def slice_of(name, size):
            ends = {"batch": batch, "past": size}
            return memory[name][tuple(slice(0, ends.get(d)) for d in shapes[name])]

        views = {name: slice_of(name, 0) for name in memory}
        logits, tokens = [], prompt
        with program.session(**options(program)) as session:
            for step in range(steps):
                out = session.run({"input_ids": tokens, **views})
                length += tokens.shape[1]
                for output, name in pairs(program):
                    # Each step goes on with what the one before returned: a view of the same memory.
                    views[name] = out[output]
                    array = np.asarray(out[output])
                    self.assertEqual(array.ctypes.data, memory[name].ctypes.data)
                    self.assertEqual(array.shape, slice_of(name, length).shape)
                    self.assertEqual(array.strides, slice_of(name, length).strides)
                    self.assertFalse(np.isnan(array).any(), (step, name))
                    written = np.count_nonzero(~np.isnan(memory[name]))
                    self.assertEqual(written, array.size, (step, name))
                logits.append(np.array(out["logits"]))
                tokens = logits[-1][:, -1:].argmax(-1)
        return logits, {name: slice_of(name, length) for name in memory}

    def compare(self, kind, batch, target="cpu", steps=STEPS):
        prompt = np.random.default_rng(batch).integers(0, VOCABULARY, (batch, PROMPT))
        want, caches = decode_copying(compiled(kind, False, target), prompt, steps)
        got, in_place = self.decode_in_place(compiled(kind, True, target), prompt, steps)
        self.assertEqual(len(got), steps)
        # On CUDA a norm and an unrelated copy may be one kernel in one of the programs, which sums in another order.
        tolerance = dict(rtol=1e-4, atol=1e-5) if target == "cuda" else dict(rtol=0, atol=0)
        for step, (a, b) in enumerate(zip(got, want)):
            np.testing.assert_allclose(a, b, err_msg=f"{kind}, step {step}", **tolerance)
        for name, cache in caches.items():
            np.testing.assert_allclose(in_place[name], cache, err_msg=name, **tolerance)

    def test_twenty_steps_in_place_give_the_bits_of_the_copying_program(self):
        for kind in decoders.KINDS:
            for batch in (1, 2):
                with self.subTest(kind=kind, batch=batch):
                    self.compare(kind, batch)

    def test_the_interpreter_grows_caches_too(self):
        self.compare("llama", 2, "interpreter", 3)

    def test_cuda_programs_grow_caches_on_the_emulated_device(self):
        self.compare("transposed", 2, "cuda", 3)

    def test_what_the_program_says_of_its_caches(self):
        program = compiled("gpt2", True)
        spec = program.inputs[1]
        self.assertEqual((spec.name, spec.capacities, spec.written), ("past.0.key", (2, 4, CAPACITY, 8), True))
        self.assertIsNone(program.inputs[0].capacities)
        present = next(o for o in program.outputs if o.name == "present.0.key")
        self.assertEqual((present.capacities, present.alias_of), (spec.capacities, "past.0.key"))
        self.assertIsNone(program.outputs[0].capacities)

    def test_memory_without_room_is_refused(self):
        program = compiled("gpt2", True)
        room = {s.name: np.zeros(s.capacities, np.float32) for s in program.inputs[1:]}
        feeds = {name: array[:1, :, :2] for name, array in room.items()}
        feeds["input_ids"] = np.zeros((1, 1), np.int64)
        with program.session(threads=1) as session:
            session.run(feeds)
            bad = {
                "dense": np.zeros((1, 4, 2, 8), np.float32),
                "less room": np.zeros((1, 4, CAPACITY - 1, 8), np.float32)[:, :, :2],
                "empty without room": np.zeros((1, 4, 0, 8), np.float32),
            }
            for what, array in bad.items():
                with self.subTest(what), self.refused("BR0731", "past.0.key", f"(2, 4, {CAPACITY}, 8)"):
                    session.run({**feeds, "past.0.key": array})
            with self.refused("BR0731", "shares memory"):
                session.run({**feeds, "past.0.key": feeds["past.1.key"]})
            with self.refused("BR0724"):  # longer than its capacity
                session.run({**feeds, **{n: a[:1, :, :CAPACITY] for n, a in room.items()}})
            out = {"present.0.key": room["past.0.key"][:1, :, :3]}
            self.assertIs(session.run(feeds, out=out)["present.0.key"], out["present.0.key"])
            with self.refused("BR0723", "memory of input"):
                session.run(feeds, out={"present.0.key": np.zeros_like(room["past.0.key"])[:1, :, :3]})

    def test_the_first_axis_grows_into_memory_that_is_given(self):
        import models
        from onnx import TensorProto, helper

        model = models.model(
            [helper.make_node("Concat", ["past", "new"], ["present"], axis=0)],
            {"past": (TensorProto.FLOAT, ("n", 3)), "new": (TensorProto.FLOAT, (1, 3))},
            {"present": (TensorProto.FLOAT, ("m", 3))},
        )
        program = braid.compile(model, dims={"n": (0, 4)}, aliases={"present": "past"})
        self.assertEqual(program.inputs[0].capacities, (5, 3))
        with program.session(threads=1) as session:
            memory = np.arange(15, dtype=np.float32).reshape(5, 3)
            new = np.full((1, 3), 7, np.float32)
            with self.refused("BR0731", "first axis", "out="):
                session.run({"past": memory[:2], "new": new})
            present = session.run({"past": memory[:2], "new": new}, out={"present": memory[:3]})["present"]
            np.testing.assert_array_equal(present, [[0, 1, 2], [3, 4, 5], [7, 7, 7]])
            np.testing.assert_array_equal(memory[3:], [[9, 10, 11], [12, 13, 14]])


if __name__ == "__main__":
    unittest.main()
