"""InferenceSession beside ONNX Runtime's, and the ONNX backend's own calls."""

import threading
import unittest

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

import braid
import braid.backend
import models
from support import TestCase


def both(model, **options):
    data = model.SerializeToString()
    theirs = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    return braid.InferenceSession(data, providers=["CPUExecutionProvider"], **options), theirs


class Inference(TestCase):
    def test_the_interface_reads_as_onnx_runtimes(self):
        mine, theirs = both(models.linear())
        for method in ("get_inputs", "get_outputs"):
            described = [[(a.name, a.shape, a.type) for a in getattr(s, method)()] for s in (mine, theirs)]
            self.assertEqual(*described)
        self.assertEqual(mine.get_providers(), theirs.get_providers())

    def test_runs_give_what_onnx_runtime_gives_for_sizes_that_grow_and_shrink(self):
        mine, theirs = both(models.linear())
        for rows in (2, 1, 3, 9, 4):
            x = np.random.default_rng(rows).standard_normal((rows, 3), np.float32)
            for names in (None, ["y"]):
                results = mine.run(names, {"x": x})
                self.assertEqual(len(results), 1)
                self.assertIsInstance(results[0], np.ndarray)
                np.testing.assert_allclose(results[0], theirs.run(names, {"x": x})[0], rtol=1e-5, atol=1e-6)

    def test_inputs_are_copied_where_needed(self):
        mine, theirs = both(models.linear(4))
        x = np.arange(12, dtype=np.float32).reshape(3, 4).T
        np.testing.assert_allclose(mine.run(None, {"x": x})[0], theirs.run(None, {"x": x})[0], rtol=1e-5)

    def test_a_shape_as_an_input_is_compiled_for_its_value(self):
        node = helper.make_node("Reshape", ["x", "shape"], ["y"])
        model = models.model(
            [node],
            {"x": (models.FLOAT, (2, 6)), "shape": (TensorProto.INT64, (2,))},
            {"y": (models.FLOAT, (None, None))},
        )
        mine, theirs = both(model)
        x = np.arange(12, dtype=np.float32).reshape(2, 6)
        for shape in ([3, 4], [4, 3], [-1, 2], [4, 3]):
            feed = {"x": x, "shape": np.array(shape, np.int64)}
            np.testing.assert_array_equal(mine.run(None, feed)[0], theirs.run(None, feed)[0])

    def test_bound_inputs_are_constants(self):
        nodes = [helper.make_node("Reshape", ["x", "shape"], ["z"]), helper.make_node("Mul", ["z", "s"], ["y"])]
        inputs = {
            "x": (models.FLOAT, (2, 6)),
            "shape": (TensorProto.INT64, (2,)),
            "s": (models.FLOAT, ()),
        }
        model = models.model(nodes, inputs, {"y": (models.FLOAT, (None, None))})
        x = np.arange(12, dtype=np.float32).reshape(2, 6)
        for shape in ([3, 4], (3, 4), np.array([3, 4])):
            session = braid.InferenceSession(model.SerializeToString(), bind={"shape": shape, "s": 2})
            self.assertEqual([value.name for value in session.get_inputs()], ["x"])
            np.testing.assert_array_equal(session.run(None, {"x": x})[0], 2 * x.reshape(3, 4))
        program = braid.compile(model, bind={"shape": [4, 3], "s": 0.5}, target="interpreter")
        self.assertEqual([value.name for value in program.inputs], ["x"])
        with self.refused("BR0313", "cannot be fixed: the model has no such input"):
            braid.compile(model, bind={"t": 1})
        with self.refused("BR0313", "i64 has no value 0.5"):
            braid.compile(model, bind={"shape": [0.5, 1]})
        for bad in ([1, [2]], ["a"], "text", object(), 1 << 70):
            with self.assertRaises(braid.Error):
                braid.compile(model, bind={"shape": bad})
        with self.refused("BR0003", "bind=3 is not a dictionary"):
            braid.compile(model, bind=3)

    def test_inputs_that_nothing_reads_may_have_any_type(self):
        node = helper.make_node("Neg", ["x"], ["y"])
        inputs = {"x": (models.FLOAT, ("n",)), "s": (TensorProto.STRING, (1,))}
        mine, theirs = both(models.model([node], inputs, {"y": (models.FLOAT, ("n",))}))
        for size in (1, 3):
            feed = {"x": np.ones(size, np.float32), "s": np.array(["a"], object)}
            np.testing.assert_array_equal(mine.run(None, feed)[0], theirs.run(None, feed)[0])

    def test_errors_come_with_numbers(self):
        mine = braid.InferenceSession(models.linear().SerializeToString(), dims={"batch": 4})
        x = np.zeros((4, 3), np.float32)
        with self.refused("BR0006", "no output 'z'"):
            mine.run(["z"], {"x": x})
        with self.refused("BR0006", "'x' is missing"):
            mine.run(None, {})
        with self.refused("BR0723"):
            mine.run(None, {"x": x[:3]})
        with self.refused("BR0001"):
            braid.InferenceSession("/missing.onnx")
        with self.refused("BR0109", "NoSuch"):
            braid.InferenceSession(models.elementwise(op="NoSuch", shape=(2,)).SerializeToString())


class Broadcast(TestCase):
    def test_a_dim_that_was_broadcast_may_grow_and_shrink_again(self):
        model = models.model(
            [helper.make_node("Add", ["a", "b"], ["s"]), helper.make_node("Mul", ["s", "s"], ["y"])],
            {"a": (TensorProto.FLOAT, ("m", 3)), "b": (TensorProto.FLOAT, ("n", 3))},
            {"y": (TensorProto.FLOAT, (None, 3))},
        )
        mine, theirs = both(model)
        random = np.random.default_rng(3)
        for m, n in ((1, 4), (4, 4), (4, 1), (1, 4), (1, 1), (7, 7), (7, 1), (1, 9), (2, 2), (4, 1)):
            feed = {"a": random.random((m, 3), np.float32), "b": random.random((n, 3), np.float32)}
            np.testing.assert_allclose(mine.run(None, feed)[0], theirs.run(None, feed)[0], rtol=1e-6)
        for m, n in ((2, 3), (3, 5)):
            with self.assertRaises(braid.Error):
                mine.run(None, {"a": np.ones((m, 3), np.float32), "b": np.ones((n, 3), np.float32)})
        self.assertLessEqual(len(mine._exact), 8)
        feed = {"a": np.ones((4, 3), np.float32), "b": np.ones((1, 3), np.float32)}
        np.testing.assert_allclose(mine.run(None, feed)[0], theirs.run(None, feed)[0])

    def test_random_sizes_of_three_inputs(self):
        model = models.model(
            [helper.make_node("Add", ["a", "b"], ["s"]), helper.make_node("Sub", ["s", "c"], ["y"])],
            {name: (TensorProto.FLOAT, (f"{name}0", f"{name}1")) for name in "abc"},
            {"y": (TensorProto.FLOAT, (None, None))},
        )
        seed = 5
        random = np.random.default_rng(seed)
        mine, theirs = both(model, target="interpreter")
        for _ in range(30):
            sizes = random.integers(1, 5, 2)
            feed = {
                name: random.random([s if random.random() < 0.6 else 1 for s in sizes], np.float32)
                for name in "abc"
            }
            result, expected = mine.run(None, feed)[0], theirs.run(None, feed)[0]
            np.testing.assert_allclose(result, expected, rtol=1e-6, err_msg=f"seed {seed}: {[v.shape for v in feed.values()]}")


class Backend(TestCase):
    def test_run_model_and_run_node(self):
        x = np.arange(12, dtype=np.float32).reshape(4, 3)
        y = braid.backend.run_model(models.linear(), [x], target="interpreter")
        np.testing.assert_array_equal(y[0], models.linear_result(x))
        np.testing.assert_array_equal(y.y, y["y"])
        node = helper.make_node("Concat", ["a", "b"], ["c"], axis=0)
        for outputs_info in (None, [(np.float32, (8, 3))]):
            c = braid.backend.run_node(node, [x, x], outputs_info=outputs_info, target="interpreter")
            np.testing.assert_array_equal(c[0], np.concatenate([x, x]))

    def test_run_node_with_an_input_twice_or_left_out(self):
        x = np.arange(4, dtype=np.float32)
        node = helper.make_node("Add", ["x", "x"], ["y"])
        (y,) = braid.backend.run_node(node, [x, x], target="interpreter")
        np.testing.assert_array_equal(y, 2 * x)
        with self.refused("BR0006", "twice"):
            braid.backend.run_node(node, [x, x + 1], target="interpreter")
        node = helper.make_node("Clip", ["x", "", "most"], ["y"])
        most = np.array(2, np.float32)
        for inputs in ([x, most], [x, None, most]):
            (y,) = braid.backend.run_node(node, inputs, target="interpreter")
            np.testing.assert_array_equal(y, np.minimum(x, 2))
        for inputs, words in (([x], "inputs for"), ([None, None, most], "None"), ([x, most, most], "leaves out")):
            with self.refused("BR0006", words):
                braid.backend.run_node(node, inputs, target="interpreter")

    def test_what_is_not_implemented_is_a_skipped_test_and_an_error(self):
        rep = braid.backend.prepare(models.elementwise(op="NoSuch", shape=(2,)))
        with self.assertRaises(braid.Error) as caught:
            rep.run([np.zeros(2, np.float32)])
        self.assertIsInstance(caught.exception, unittest.SkipTest)
        self.assertEqual(caught.exception.code, 109)
        self.assertFalse(braid.backend.supports_device("CUDA"))
        with self.refused("BR0003", "CUDA"):
            braid.backend.prepare(models.linear(), "CUDA:0")
        sequence = helper.make_tensor_sequence_value_info("x", TensorProto.FLOAT, None)
        graph = helper.make_graph(
            [helper.make_node("SequenceLength", ["x"], ["n"])], "g", [sequence],
            [helper.make_tensor_value_info("n", TensorProto.INT64, ())],
        )  # fmt: skip
        with self.refused("BR0115", "sequence"):
            braid.backend.prepare(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]))


class LikeOnnxRuntime(TestCase):
    def test_no_names_are_all_names(self):
        x = np.ones((2, 3), np.float32)
        for session in both(models.linear()):
            self.assertEqual(len(session.run([], {"x": x})), 1)

    def test_an_input_on_which_a_size_depends_is_not_remembered_for_a_run_without_it(self):
        model = models.model(
            [helper.make_node("Expand", ["x", "shape"], ["y"])],
            {"x": (TensorProto.FLOAT, (1, 3)), "shape": (TensorProto.INT64, (2,))},
            {"y": (TensorProto.FLOAT, ("a", "b"))},
        )
        session, _ = both(model)
        x = np.ones((1, 3), np.float32)
        self.assertEqual(session.run(None, {"x": x, "shape": np.array([4, 3])})[0].shape, (4, 3))
        with self.refused("BR0006", "'shape' is missing"):
            session.run(None, {"x": x})
        self.assertEqual(session.run(None, {"x": x, "shape": np.array([2, 3])})[0].shape, (2, 3))

    def test_several_threads_may_run_a_session(self):
        session, theirs = both(models.linear())
        errors = []

        def work(rows):
            x = np.full((rows, 3), rows, np.float32)
            for _ in range(50):
                try:
                    np.testing.assert_allclose(session.run(None, {"x": x})[0], models.linear_result(x))
                except Exception as error:
                    errors.append(error)

        threads = [threading.Thread(target=work, args=(rows,)) for rows in (1, 2, 4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(errors, [])

    def test_the_backend_takes_no_surplus_inputs(self):
        x = np.ones((2, 3), np.float32)
        backend = braid.backend.prepare(models.linear(), target="interpreter")
        for inputs in ([x, x], {"x": x, "z": x}):
            with self.refused("BR0006"):
                backend.run(inputs)


if __name__ == "__main__":
    unittest.main()
