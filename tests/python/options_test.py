"""The options of compiling that Python shares with the command line. With --update, the page and the type hints that list them are
written anew."""

import inspect
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import numpy as np
import onnx

import braid
import models
from braid._options import KEYWORDS
from support import TestCase

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE, HINTS = ROOT / "docs/python.md", ROOT / "python/braid/_keywords.pyi"
BRAID = os.environ.get("BRAID_PROGRAM", "braid")
TYPES = {"str": "Text", "texts": "Text | Sequence[Text]"}


def table():
    kinds = {"str": "text", "texts": "text or several", "int": "number", "float": "number", "bool": "`True`"}
    star = str.maketrans({"*": r"\*"})
    rows = (f"| `{k.name}` | {kinds[k.kind]} | {k.help.translate(star)} |\n" for k in KEYWORDS.values())
    return "| option | value | |\n|---|---|---|\n" + "".join(rows)


def hints():
    lines = (
        f"    {k.name}: {TYPES.get(k.kind, k.kind)}{' | None' * (k.default is None)}\n"
        for k in KEYWORDS.values()
    )
    return (
        "# The keywords of compile, explain and check; tests/python/options_test.py --update writes this file.\n"
        "import os\nfrom collections.abc import Sequence\nfrom typing import TypedDict\n\n"
        "Text = str | os.PathLike[str]\n\nclass Keywords(TypedDict, total=False):\n" + "".join(lines)
    )


def listed(page):
    return re.search(r"\| option \| value \| \|\n(?:\|.*\n)+", page).group()


class Listed(TestCase):
    def test_the_page_and_the_type_hints_are_the_table(self):
        how = "run tests/python/options_test.py --update"
        self.assertEqual(listed(PAGE.read_text()), table(), how)
        self.assertEqual(HINTS.read_text(), hints(), how)

    def test_signature_and_documentation_have_every_option(self):
        for function in (braid.compile, braid.explain, braid.check):
            parameters = inspect.signature(function).parameters
            for keyword in KEYWORDS.values():
                if function == braid.compile or not keyword.of_programs:
                    self.assertEqual(parameters[keyword.name].default, keyword.default)
        for keyword in KEYWORDS.values():
            self.assertIn(f"\n{keyword.name}: {keyword.help}\n", braid.compile.__doc__)
            self.assertNotIn("--" + keyword.name, keyword.help)
        with self.assertRaisesRegex(TypeError, r"compile\(\) got an unexpected keyword argument 'tpp'"):
            braid.compile(models.linear(4), tpp=2)
        with self.assertRaisesRegex(TypeError, "checked"):
            braid.explain(models.linear(4), checked=True)


class Options(TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def passes(self, **options):
        told = braid.explain(models.two_products(64), **options).data
        return [one["name"] for one in told["passes"]]

    def text(self, model, **options):
        """The source, without the number of the compilation."""
        braid.compile(model, output=self.folder / "out", name="p", **options)
        return re.sub(r"0x[0-9a-f]{16}u", "", (self.folder / "out/p.cc").read_text())

    def test_precision_changes_products(self):
        model = models.two_products(64)
        self.assertNotEqual(self.text(model, precision="bf16"), self.text(model))
        self.assertEqual(self.text(model, precision="f32"), self.text(model))
        with self.refused("BR0003", "f33", "f32,bf16,f16,int8"):
            braid.compile(model, precision="f33")
        with self.refused("BR0003", "precision='int8'", "precision='bf16'"):
            braid.compile(model, precision="int8", target="cuda")
        with self.refused("BR0003", "precise=", "target='cuda'"):
            braid.compile(model, precise=True)

    def test_passes_are_left_out(self):
        self.assertIn("lower_precision", self.passes(precision="f16"))
        all_passes = self.passes()
        self.assertEqual(self.passes(bisect=2), all_passes)  # listed, not run
        model = models.two_products(64)
        self.assertNotEqual(self.text(model, disable="fuse_epilogues"), self.text(model))
        self.assertEqual(
            self.text(model, disable=["fuse_epilogues"]), self.text(model, disable="fuse_epilogues")
        )
        self.assertEqual(self.text(model, disable=[]), self.text(model))
        with self.refused("BR0540", "no_such_pass"):
            braid.compile(model, disable=["no_such_pass"])
        with self.refused("BR0003", "bisect=-1 is not a number", "0 to 1000000"):
            braid.compile(model, bisect=-1)

    def test_several_texts_may_be_any_iterable(self):
        model = models.two_products(64)
        given = (name for name in ("fuse_epilogues",))
        self.assertEqual(self.text(model, disable=given), self.text(model, disable=["fuse_epilogues"]))

    def test_annotations_can_be_read_at_run_time(self):
        for function in (braid.compile, braid.explain, braid.check):
            self.assertNotIn("options", function.__annotations__)

    def test_the_interpreter_refuses_what_only_programs_do(self):
        with self.refused("BR0003", "checked= is for compiled programs"):
            braid.compile(models.linear(), default_dim="8", target="interpreter", checked=True)

    def test_default_dim_bounds_the_others(self):
        program = braid.compile(models.linear(), default_dim="8", target="interpreter")
        self.assertEqual(program.dims, {"batch": (1, 8)})
        program = braid.compile(
            models.linear(), default_dim="2..4", dims={"batch": (3, 5)}, target="interpreter"
        )
        self.assertEqual(program.dims, {"batch": (3, 5)})
        with self.refused("BR0003", "default_dim='x': malformed", "MIN..MAX"):
            braid.compile(models.linear(), default_dim="x")

    def test_costs_and_link_change_times(self):
        def step(**options):
            told = braid.explain(models.all_reduce(1024), ranks=2, **options).data
            return told["communication"]["after"]["makespan_ns"]

        plain = step()
        self.assertNotEqual(step(link="100us,1.5"), plain)
        self.assertEqual(step(link="100us,1.5GB/s"), step(link="100us,1.5"))
        with self.refused("BR0003", "link='5us'", "LATENCY"):
            step(link="5us")
        costs = self.folder / "costs.json"
        braid.compile(models.all_reduce(1024), ranks=2, output=self.folder / "sum")
        command = [BRAID, "run", self.folder / "sum", "--random", "1", "--trace-costs", costs]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.assertNotEqual(step(costs=costs), plain)
        with self.refused("BR0001", "none.json"):
            step(costs=self.folder / "none.json")

    def test_kernels_of_collectives_are_chosen(self):
        model, options = models.all_reduce(1024), {"ranks": 2}
        sources = {k: self.text(model, force_kernels=f"*={k}", **options) for k in ("one_shot", "two_shot")}
        self.assertNotEqual(sources["one_shot"], sources["two_shot"])
        for given, code, words in (
            ("x", "BR0586", "force_kernels='x': cannot be read"),
            (["all_reduce=bogus"], "BR0588", "force_kernels=: "),
            ("nope=one_shot", "BR0587", "force_kernels=: the program has no collective 'nope'"),
        ):
            with self.refused(code, words):
                braid.compile(model, force_kernels=given, **options)

    def test_programs_are_checked_or_stand_alone(self):
        self.assertNotEqual(self.text(models.linear(4), checked=True), self.text(models.linear(4)))
        with self.refused("BR0003", "standalone= supports only programs for cuda"):
            braid.compile(models.linear(4), standalone=True)
        braid.compile(models.linear(4), target="cuda", standalone=True, output=self.folder / "cuda")
        self.assertTrue((self.folder / "cuda/CMakeLists.txt").exists())
        with self.refused("BR0003", "checked= supports only programs for cpu"):
            braid.compile(models.linear(4), target="cuda", checked=True)

    def test_splits_keep_limits_and_lines(self):
        model = models.two_products(64)
        limited = {"target": "interpreter", "tp": 2, "memory_limit": 10}
        with self.refused("BR0488", "no plan fits into 10"):
            braid.compile(model, **limited)
        self.assertEqual(braid.compile(model, **{**limited, "memory_limit": 10**9}).ranks, 2)
        with self.refused("BR0489", "is not strict", "leave out strict=, or raise conversion_share="):
            braid.compile(model, tp=2, strict=True, conversion_share=0)
        with self.refused("BR0003", "conversion_share=101", "0 to 100"):
            braid.compile(model, tp=2, strict=True, conversion_share=101)
        keep = self.folder / "keep.plan"
        keep.write_text("plan 1\nranks 2\n")
        self.assertEqual(braid.compile(model, tp=2, keep=keep, target="interpreter").ranks, 2)
        with self.refused("BR0484", "a multiple of them as devices="):
            braid.compile(model, devices=3, keep=keep)
        with self.refused("BR0484", "plan= is given together with memory_limit= or keep="):
            braid.compile(model, plan=keep, keep=keep)
        for options in ({"strict": True}, {"memory_limit": 3}, {"keep": keep}, {"split_caches": True}):
            with self.refused("BR0003", next(iter(options)) + "=", "about a split", "devices=, tp= or mesh="):
                braid.compile(model, **options)
        x = np.ones((64, 64), np.float32)
        self.assertEqual(braid.check(self.saved(model), tp=2).ranks, 2)
        self.assertIn("2 ranks", str(braid.explain(model, tp=2)))
        with braid.compile(model, tp=2, target="interpreter").launch() as ranks:
            np.testing.assert_array_equal(*(result["y"] for result in ranks.run({"x": x})))

    def saved(self, model):
        onnx.save(model, self.folder / "model.onnx")
        return self.folder / "model.onnx"


if __name__ == "__main__":
    if "--update" in sys.argv:
        PAGE.write_text(PAGE.read_text().replace(listed(PAGE.read_text()), table()))
        HINTS.write_text(hints())
    else:
        unittest.main()
