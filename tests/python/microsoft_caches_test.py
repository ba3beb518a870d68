"""Caches of com.microsoft's operators in their own layouts, in place: steps against ONNX Runtime, with NaN in all memory that holds no
key or value yet, which must be neither read nor written."""

import unittest

import models
import numpy as np
import onnxruntime
from onnx import TensorProto, helper
from support import TestCase

import braid

FLOAT, INT32 = TensorProto.FLOAT, TensorProto.INT32
BATCH, HEADS, KEY_HEADS, SIZE, CAPACITY = 2, 4, 2, 16, 12
DOMAIN = [("com.microsoft", 1)]


def model(kind, inputs, outputs, shapes, before=(), **attributes):
    """One node of com.microsoft behind the nodes `before`. `inputs`: names, "" where one is left out."""
    node = helper.make_node(kind, inputs, list(outputs), domain="com.microsoft", **attributes)
    return models.model([*before, node], shapes, outputs, opset=17, more_opsets=DOMAIN)


def theirs(proto, feeds):
    proto.ir_version = 10
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


class Rows:
    """The caches of keys and values, NaN where a row has none, and their lengths by row of the batch."""

    def __init__(self, shape, lengths, seed):
        self.random, self.lengths, self.axis = np.random.default_rng(seed), np.array(lengths), len(shape) - 2
        self.memory = [self.numbers(*shape) for _ in range(1 if len(shape) == 5 else 2)]
        self.forget()

    def numbers(self, *shape):
        return self.random.standard_normal(shape).astype(np.float32)

    def row(self, array, r):
        """[heads, positions, size] or [2, heads, positions, size]"""
        return array[:, r] if array.ndim == 5 else array[r]

    def forget(self):
        for array in self.memory:
            for r, length in enumerate(self.lengths):
                self.row(array, r)[..., length:, :] = np.nan

    def holds(self):
        """The keys and values that there must be now are numbers, and all else is untouched."""
        for array in self.memory:
            for r, length in enumerate(self.lengths):
                row = self.row(array, r)
                if np.isnan(row[..., :length, :]).any() or not np.isnan(row[..., length:, :]).all():
                    return False
        return True


class FixedCaches(TestCase):
    def steps(self, ours, rows, feeds_of, reference, caches, dims=None, count=4):
        """Runs `count` steps, each with one more key; `reference(feeds)` gives ONNX Runtime's result and new cache rows."""
        aliases = {output: name for output, name in caches}
        with braid.compile(ours, dims=dims, aliases=aliases).session(threads=2) as session:
            for step in range(count):
                feeds = feeds_of()
                want = reference(feeds)
                out = session.run({**feeds, **dict(zip((name for _, name in caches), rows.memory))})
                rows.lengths += 1
                self.assertTrue(rows.holds(), step)
                np.testing.assert_allclose(np.asarray(out["y"]), want[0], rtol=2e-5, atol=2e-5, err_msg=f"step {step}")
                for (output, _), array, cache in zip(caches, rows.memory, want[1:]):
                    self.assertEqual(np.asarray(out[output]).ctypes.data, array.ctypes.data)
                    for r, length in enumerate(rows.lengths):
                        mine, other = (rows.row(x, r)[..., :length, :] for x in (array, cache))
                        np.testing.assert_allclose(mine, other, rtol=1e-5, atol=1e-5)

    def group_query(self, lengths, sinks=False, **attributes):
        cache, hidden = (BATCH, KEY_HEADS, CAPACITY, SIZE), HEADS * SIZE
        shapes = {
            "q": (FLOAT, (BATCH, 1, hidden)),
            "k": (FLOAT, (BATCH, 1, KEY_HEADS * SIZE)),
            "v": (FLOAT, (BATCH, 1, KEY_HEADS * SIZE)),
            "past_key": (FLOAT, cache),
            "past_value": (FLOAT, cache),
            "last": (INT32, (BATCH,)),
            "mask": (TensorProto.INT64, (BATCH, "total")),
            "cos": (FLOAT, (CAPACITY, SIZE // 2)),
            "sin": (FLOAT, (CAPACITY, SIZE // 2)),
            **({"sinks": (FLOAT, (HEADS,))} if sinks else {}),
        }
        one = helper.make_tensor("one", TensorProto.INT64, [], [1])
        before = [
            helper.make_node("Constant", [], ["one"], value=one),
            helper.make_node("Shape", ["mask"], ["sizes"]),
            helper.make_node("Gather", ["sizes", "one"], ["total64"], axis=0),
            helper.make_node("Cast", ["total64"], ["total"], to=INT32),
        ]
        outputs = {
            "y": (FLOAT, (BATCH, 1, hidden)),
            "present_key": (FLOAT, cache),
            "present_value": (FLOAT, cache),
        }
        names = ["q", "k", "v", "past_key", "past_value", "last", "total", "cos", "sin"]
        proto = model("GroupQueryAttention", [*names, *(["", "", "sinks"] if sinks else [])], outputs, shapes, before,
                      num_heads=HEADS, kv_num_heads=KEY_HEADS, do_rotary=1, **attributes)  # fmt: skip
        rows = Rows(cache, lengths, sum(lengths))
        angles = rows.numbers(CAPACITY, SIZE // 2)
        given = {"cos": np.cos(angles), "sin": np.sin(angles)}
        if sinks:
            given["sinks"] = rows.numbers(HEADS)

        def feeds_of():
            new = {name: rows.numbers(*shapes[name][1]) for name in ("q", "k", "v")}
            mask = np.ones((BATCH, rows.lengths.max() + 1), np.int64)
            return {**new, **given, "last": rows.lengths.astype(np.int32), "mask": mask}

        def reference(feeds):
            pasts = {name: np.nan_to_num(x) for name, x in zip(("past_key", "past_value"), rows.memory)}
            return theirs(proto, {**feeds, **pasts})

        caches = [("present_key", "past_key"), ("present_value", "past_value")]
        self.steps(proto, rows, feeds_of, reference, caches, {"total": (1, CAPACITY)})

    def test_group_query_attention_with_rows_of_different_lengths(self):
        self.group_query((5, 2))

    def test_group_query_attention_with_a_window_and_softcap(self):
        self.group_query((7, 1), local_window_size=3, softcap=5.0)

    def test_group_query_attention_with_sinks_spells_its_scores_out(self):
        self.group_query((3, 6), sinks=True)
        self.group_query((0, 4), smooth_softmax=1)

    def multi_head(self, shared):
        hidden = HEADS * SIZE
        past = (BATCH, HEADS, CAPACITY if shared else "past", SIZE)
        present = (BATCH, HEADS, CAPACITY if shared else "all", SIZE)
        shapes = {
            **{name: (FLOAT, (BATCH, 1, hidden)) for name in "qkv"},
            "past_key": (FLOAT, past),
            "past_value": (FLOAT, past),
            **({"length": (INT32, (1,))} if shared else {}),
        }
        outputs = {
            "y": (FLOAT, (BATCH, 1, hidden)),
            "present_key": (FLOAT, present),
            "present_value": (FLOAT, present),
        }
        names = ["q", "k", "v", "", "", "", "past_key", "past_value", *(["length"] if shared else [])]
        return model("MultiHeadAttention", names, outputs, shapes, num_heads=HEADS)

    def test_multi_head_attention_with_a_shared_buffer(self):
        rows = Rows((BATCH, HEADS, CAPACITY, SIZE), (4, 4), 1)

        def feeds_of():
            return {**{name: rows.numbers(BATCH, 1, HEADS * SIZE) for name in "qkv"},
                    "length": rows.lengths[:1].astype(np.int32)}  # fmt: skip

        def reference(feeds):
            past = {name: np.ascontiguousarray(x[:, :, : rows.lengths[0]])
                    for name, x in zip(("past_key", "past_value"), rows.memory)}  # fmt: skip
            return theirs(self.multi_head(False), {**{name: feeds[name] for name in "qkv"}, **past})

        caches = [("present_key", "past_key"), ("present_value", "past_value")]
        self.steps(self.multi_head(True), rows, feeds_of, reference, caches)

    def stacked(self, shared):
        hidden = HEADS * SIZE
        shapes = {
            "x": (FLOAT, (BATCH, 1, 8)),
            "w": (FLOAT, (8, 3 * hidden)),
            "bias": (FLOAT, (3 * hidden,)),
            "past": (FLOAT, (2, BATCH, HEADS, CAPACITY if shared else "past", SIZE)),
            **({"length": (INT32, (1,))} if shared else {}),
        }
        outputs = {
            "y": (FLOAT, (BATCH, 1, hidden)),
            "present": (FLOAT, (2, BATCH, HEADS, CAPACITY if shared else "all", SIZE)),
        }
        names = ["x", "w", "bias", "", "past", *(["", "length"] if shared else [])]
        return model("Attention", names, outputs, shapes, num_heads=HEADS, unidirectional=1,
                     past_present_share_buffer=int(shared))  # fmt: skip

    def test_attention_with_a_shared_stacked_buffer(self):
        rows = Rows((2, BATCH, HEADS, CAPACITY, SIZE), (3, 3), 2)
        weights = {"w": rows.numbers(8, 3 * HEADS * SIZE), "bias": rows.numbers(3 * HEADS * SIZE)}

        def feeds_of():
            return {**weights, "x": rows.numbers(BATCH, 1, 8), "length": rows.lengths[:1].astype(np.int32)}

        def reference(feeds):
            past = np.ascontiguousarray(rows.memory[0][:, :, :, : rows.lengths[0]])
            return theirs(self.stacked(False), {**{name: feeds[name] for name in ("x", "w", "bias")}, "past": past})

        self.steps(self.stacked(True), rows, feeds_of, reference, [("present", "past")])


class GrowingCaches(TestCase):
    def test_rows_of_different_lengths_get_zeros_behind_them_as_in_the_copying_program(self):
        """Positions that the old cache does not have hold NaN before the step."""
        hidden, most = HEADS * SIZE, CAPACITY - 1
        shapes = {
            "q": (FLOAT, ("batch", "n", hidden)),
            "k": (FLOAT, ("batch", "n", KEY_HEADS * SIZE)),
            "v": (FLOAT, ("batch", "n", KEY_HEADS * SIZE)),
            "past_key": (FLOAT, ("batch", KEY_HEADS, "past", SIZE)),
            "past_value": (FLOAT, ("batch", KEY_HEADS, "past", SIZE)),
            "last": (INT32, ("batch",)),
            "mask": (TensorProto.INT64, ("batch", "total")),
        }
        one = helper.make_tensor("one", TensorProto.INT64, [], [1])
        before = [
            helper.make_node("Constant", [], ["one"], value=one),
            helper.make_node("Shape", ["mask"], ["sizes"]),
            helper.make_node("Gather", ["sizes", "one"], ["total64"], axis=0),
            helper.make_node("Cast", ["total64"], ["total32"], to=INT32),
        ]
        present = (FLOAT, ("batch", KEY_HEADS, "new", SIZE))
        outputs = {"y": (FLOAT, ("batch", "n", hidden)), "present_key": present, "present_value": present}
        names = ["q", "k", "v", "past_key", "past_value", "last", "total32"]
        proto = model("GroupQueryAttention", names, outputs, shapes, before, num_heads=HEADS, kv_num_heads=KEY_HEADS)
        dims = {"batch": (1, BATCH), "n": (1, 3), "past": (0, most), "total": (1, CAPACITY), "new": (1, CAPACITY)}
        copying = braid.compile(proto, dims=dims)
        aliases = {"present_key": "past_key", "present_value": "past_value"}
        in_place = braid.compile(proto, dims=dims, aliases=aliases)
        self.assertEqual(next(s.capacities for s in in_place.inputs if s.name == "past_key"),
                         (BATCH, KEY_HEADS, CAPACITY, SIZE))  # fmt: skip
        random = np.random.default_rng(3)
        with copying.session(threads=1) as a, in_place.session(threads=1) as b:
            for batch, n, past, total, last in (
                (2, 1, 5, 6, (5, 2)),
                (2, 2, 4, 9, (8, 3)),
                (1, 3, 0, 3, (1,)),
                (2, 1, 8, 5, (4, 2)),
                (2, 3, 3, 12, (2, 10)),
            ):
                with self.subTest(batch=batch, n=n, past=past, total=total, last=last):
                    feeds = {
                        "q": random.standard_normal((batch, n, hidden)).astype(np.float32),
                        "k": random.standard_normal((batch, n, KEY_HEADS * SIZE)).astype(np.float32),
                        "v": random.standard_normal((batch, n, KEY_HEADS * SIZE)).astype(np.float32),
                        "last": np.array(last, np.int32),
                        "mask": np.ones((batch, total), np.int64),
                    }
                    pasts, views = {}, {}
                    for name in ("past_key", "past_value"):
                        pasts[name] = random.standard_normal((batch, KEY_HEADS, past, SIZE)).astype(np.float32)
                        memory = np.full((BATCH, KEY_HEADS, CAPACITY, SIZE), np.nan, np.float32)
                        views[name] = memory[:batch, :, :past]
                        views[name][...] = pasts[name]
                    want, got = a.run({**feeds, **pasts}), b.run({**feeds, **views})
                    for name in outputs:
                        np.testing.assert_array_equal(np.asarray(got[name]), np.asarray(want[name]), err_msg=name)


if __name__ == "__main__":
    unittest.main()
