"""explain, check and ops."""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

from onnx import save

import braid
import models
from support import TestCase


class Explain(TestCase):
    def test_the_facts_of_a_model(self):
        explanation = braid.explain(models.linear(), dims={"batch": (1, 8)})
        data = explanation.data
        self.assertEqual((data["ranks"], data["dims"]), (1, {"batch": [1, 8]}))
        self.assertEqual(data["inputs"], [{"name": "x", "type": "f32[batch, 3]", "written": False}])
        self.assertEqual(data["memory"]["inputs_and_outputs"], 8 * 3 * 4 + 8 * 2 * 4)
        self.assertEqual(data["operations_after_the_passes"], {"gemm": 1})  # the sum is its epilogue
        (kernel,) = data["kernels"]
        self.assertEqual(len(kernel["onnx_nodes"]), 2)
        self.assertNotIn("communication", data)
        self.assertEqual(explanation.page, "")
        self.assertIn("dim batch", str(explanation))
        page = explanation._repr_html_()
        self.assertIn("f32[batch, 3]", page)
        self.assertNotIn("<iframe", page)

    def test_names_are_escaped_in_a_notebook(self):
        model = models.elementwise(shape=("<script>alert(1)</script>", 4))
        page = braid.explain(model, dims={"<script>alert(1)</script>": (1, 8)})._repr_html_()
        self.assertNotIn("<script>", page)

    def test_communication_is_explained(self):
        explanation = braid.explain(models.all_reduce(), ranks=2)
        self.assertEqual(explanation.data["communication"]["version"], 1)
        self.assertIn("makespan", str(explanation))
        self.assertIn("<svg", explanation.page)
        self.assertIn("<iframe", explanation._repr_html_())
        with self.refused("BR0553", "no_machine"):
            braid.explain(models.all_reduce(), ranks=2, machine="no_machine")


class ExplainProgram(TestCase):
    def test_a_folder_is_explained_as_on_the_command_line(self):
        for target in ("cpu", "cuda"):
            program = braid.compile(models.all_reduce(), ranks=2, target=target)
            told = subprocess.check_output(
                [os.environ["BRAID_PROGRAM"], "explain", program.folder, "--json"], text=True
            )
            theirs = json.loads(told)
            for given in (program, program.folder, pathlib.Path(program.folder)):
                explanation = braid.explain(given)
                for key in ("name", "target", "ranks", "dims", "inputs", "outputs", "planned", "weight_bytes", "collectives", "collectives_in_order"):  # fmt: skip
                    self.assertEqual(explanation.data[key], theirs[key], key)
                self.assertEqual("kernels" in explanation.data, target == "cpu")
                for text in (str(explanation), explanation._repr_html_()):
                    self.assertIn("all_reduce", text)
                    self.assertIn("f32[4]", text)
                self.assertEqual(explanation.page, "")
                self.assertIn(program.name, repr(explanation))

    def test_what_is_no_program_is_refused(self):
        with tempfile.TemporaryDirectory() as folder, self.refused("BR0008"):
            braid.explain(folder)
        program = braid.compile(models.linear(4), target="interpreter")
        with self.refused("BR0003", "interpreter"):
            braid.explain(program)
        program = braid.compile(models.linear(4))
        with self.refused("BR0003", "compiled program"):
            braid.explain(program, dims={"batch": 4})


class Check(TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_agreement_is_certified_for_models_and_folders(self):
        save(models.all_reduce(), self.folder / "m.onnx")
        program = braid.compile(models.all_reduce(), ranks=2)
        for certificate in (
            braid.check(self.folder / "m.onnx", ranks=2),
            braid.check(program.folder),
            braid.check(program),
        ):
            self.assertEqual((certificate.ranks, certificate.channels), (2, "global"))
            self.assertEqual([collectives for _, collectives, _ in certificate.groups], [1])
            self.assertEqual(len(certificate.order), 1)
            self.assertIn("2 ranks agree and cannot deadlock", str(certificate))

    def test_an_interpreters_program_has_nothing_to_check(self):
        with self.refused("BR0003", "interpreter"):
            braid.check(braid.compile(models.linear(4), target="interpreter"))

    def test_a_difference_is_an_error_with_a_witness(self):
        for rank, size in enumerate((4, 8)):
            save(models.all_reduce(size), self.folder / f"rank{rank}.onnx")
        with self.refused("BR0900", "rank 0", "rank 1"):
            braid.check(self.folder / "rank0.onnx", self.folder / "rank1.onnx")


class Ops(TestCase):
    def test_the_list_is_that_of_the_command(self):
        import os

        mine = braid.ops()
        command = [os.environ["BRAID_PROGRAM"], "ops", "--json"]
        theirs = json.loads(subprocess.check_output(command))["operators"]
        fields = ("domain", "name", "first_version", "last_version")
        self.assertEqual([op[:4] for op in mine], [tuple(op[f] for f in fields) for op in theirs])
        add = next(op for op in mine if op.name == "Add")
        self.assertIn("float32", add.types)


if __name__ == "__main__":
    unittest.main()
