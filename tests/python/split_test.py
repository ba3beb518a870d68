"""Plain models that are split over ranks when they are compiled."""

import pathlib
import tempfile
import unittest

import numpy as np
import onnx

import braid
import models
from support import TestCase


class Split(TestCase):
    def test_a_plain_model_is_split(self):
        x = np.arange(12, dtype=np.float32).reshape(4, 3)
        for target in ("cpu", "interpreter"):
            program = braid.compile(models.linear(4), tp=2, target=target)
            self.assertEqual(program.ranks, 2)
            with program.launch(threads=1) as ranks:
                for result in ranks.run({"x": x}):
                    np.testing.assert_array_equal(result["y"], models.linear_result(x))
        # So small a model is the fastest alone.
        self.assertEqual(braid.compile(models.linear(4), devices=2, machine="h100", target="interpreter").ranks, 1)
        with tempfile.TemporaryDirectory() as folder:
            plan = pathlib.Path(folder) / "w.plan"
            plan.write_text('plan 1\nranks 2\n"w" -> "m" = S(1)\n"m" = S(1)\n"b" -> "y" = S(0)\n"y" = S(1)\n')
            program = braid.compile(models.linear(4), plan=plan, target="interpreter")
        with program.launch() as ranks:
            for result in ranks.run({"x": x}):
                np.testing.assert_array_equal(result["y"], models.linear_result(x))
        for devices in (0, True, "2"):
            with self.refused("BR0003", "devices"):
                braid.compile(models.linear(4), devices=devices)
        with self.refused("BR0484", "devices=, tp=, mesh= and plan="):
            braid.compile(models.linear(4), devices=2, tp=2)

    def test_programs_of_the_same_weights_are_split_together(self):
        with tempfile.TemporaryDirectory() as folder:
            prefill, decode = pathlib.Path(folder) / "prefill.onnx", pathlib.Path(folder) / "decode.onnx"
            onnx.save(models.two_products(256), prefill)
            onnx.save(models.two_products(1), decode)
            out = [pathlib.Path(folder) / name for name in ("alone", "both", "other")]
            braid.compile(prefill, tp=2, output=out[0])
            both = braid.compile(prefill, tp=2, with_=f"{decode}*100", output=out[1])
            other = braid.compile(decode, tp=2, at="*100", with_=[prefill], output=out[2])
            # Many rows are cut while weights stay whole, which costs the other program more than this one gains.
            self.assertFalse((out[0] / "weights.rank0.bin").exists())
            for rank in (0, 1):
                half = 2 * 64 * 128 * 4 // 2  # behind a header with the program's number
                parts = [(path / f"weights.rank{rank}.bin").read_bytes()[-half:] for path in out[1:]]
                self.assertTrue(len(parts[0]) == half and parts[0] == parts[1])
            x = np.arange(256 * 64, dtype=np.float32).reshape(256, 64) % 7 - 3
            for program, rows in ((both, x), (other, x[:1])):
                with braid.compile(models.two_products(len(rows)), target="interpreter").session() as plain:
                    expected = plain.run({"x": rows})["y"].numpy()
                with program.launch(threads=1) as ranks:
                    for result in ranks.run({"x": rows}):
                        np.testing.assert_array_equal(result["y"], expected)
            for options, code, what in (
                ({"with_": decode}, "BR0003", "with_="),
                ({"at": "*2"}, "BR0003", "at="),
                ({"split_caches": True}, "BR0003", "split_caches="),
                ({"tp": 2, "with_": f"{decode}*0"}, "BR0003", "steps"),
                ({"tp": 2, "with_": 3}, "BR0003", "with_"),
                ({"tp": 2, "with_": prefill}, "BR0494", "with_= names a model that is given already"),
                # As they are called here, not on the command line.
                ({"tp": 2, "at": ""}, "BR0003", "at='': no sizes"),
                ({"tp": 2, "at": "n=x"}, "BR0003", "at='n=x': 'x' is no size"),
                ({"tp": 2, "with_": ""}, "BR0003", "with_='': no file"),
                ({"tp": 2, "with_": f"{decode}:n=x"}, "BR0003", f"with_='{decode}:n=x': "),
                ({"tp": 2, "at": "n=4"}, "BR0484", "at='n=4': the dimension has no bounds"),
                ({"plan": prefill, "with_": decode}, "BR0484", "with_= and plan="),
                ({"mesh": "pp=2"}, "BR0493", "mesh='pp=2': "),
            ):
                with self.assertRaises(braid.Error) as caught:
                    braid.compile(prefill, **options)
                error = caught.exception
                self.assertEqual(f"BR{error.code:04}", code, str(error))
                self.assertIn(what, error.message)
                self.assertNotIn("--", error.message)


if __name__ == "__main__":
    unittest.main()
