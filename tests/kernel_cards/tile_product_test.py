#!/usr/bin/env python3
"""Products on tensor cores (tile_product.cu) as nvcc makes them for sm_80 and sm_90. Exit code 77 where nvcc or nvdisasm is missing."""

import pathlib
import re
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "scripts"))
import cubin
import kernel_cards
from machine_file import load_gpu

SOURCE = HERE / "tile_product.cu"
KERNELS = ["product_bf16", "product_f16", "product_f16_by_rows", "product_s8", "product_tf32"]
INSTRUCTIONS_PER_PRODUCT = 20  # the tiles are small: 17 of nvcc 13.0 for sm_90
# Those of programs, with the most instructions and ldmatrix per product.
TILES = {
    "tile_large_bf16": (3.5, 0.25),
    "tile_large_f16": (3.5, 0.25),
    "tile_large_f16_by_rows": (3.5, 0.25),
    "tile_small_f16": (3.5, 0.375),
    "tile_small_f16_by_rows": (3.5, 0.375),
    "tile_tall_f16": (3.5, 0.25),
    "tile_tall_windows": (3.5, 0.25),
    "tile_large_windows": (3.5, 0.25),
    "tile_small_windows": (5.5, 0.375),  # finding the tap takes as long as for four times the products
    "tile_flat_f16": None,  # bound by the weights that it streams
}


class TileProduct(unittest.TestCase):
    def code_and_cards(self, machine):
        gpu = load_gpu(machine)
        code = cubin.compiled(SOURCE, gpu.architecture, *cubin.tools())
        return code, kernel_cards.cards_of(code, SOURCE.read_text(encoding="utf-8"), 256, gpu)

    def test_the_loop_has_the_instructions_and_spills_nothing(self):
        for machine in ("a100", "h200"):
            _, cards = self.code_and_cards(machine)
            self.assertEqual(sorted(c.kernel for c in cards), sorted(KERNELS + list(TILES)))
            for c in cards:
                if c.kernel in TILES:
                    continue
                with self.subTest(machine + " " + c.kernel):
                    loop = c.regions[0]
                    self.assertEqual((c.spilled, c.stack, sum(c.local.values()), loop.kind), (0, 0, 0, "loop"))
                    self.assertGreater(loop.matrix["HMMA"], 0)
                    self.assertEqual(loop.matrix["LDSM"], loop.matrix["HMMA"])  # one for each of 2 products
                    self.assertEqual(loop.matrix["LDGSTS"], 4)
                    self.assertEqual((loop.loads, loop.wide_bytes), (4, loop.load_bytes))  # no others, of 16 bytes
                    self.assertLessEqual(loop.instructions, INSTRUCTIONS_PER_PRODUCT * loop.matrix["HMMA"])

    def test_tiles_of_programs_spend_few_instructions_beside_products(self):
        for machine in ("a100", "h200"):
            _, cards = self.code_and_cards(machine)
            for c in cards:
                if c.kernel not in TILES:
                    continue
                with self.subTest(machine + " " + c.kernel):
                    self.assertEqual((c.spilled, c.stack, sum(c.local.values())), (0, 0, 0))
                    if TILES[c.kernel] is None:
                        continue
                    instructions, loads = TILES[c.kernel]
                    loop = c.regions[0]
                    self.assertEqual(loop.matrix["LDSM"], loads * loop.matrix["HMMA"])
                    self.assertEqual(loop.wide_bytes, loop.load_bytes)
                    self.assertLessEqual(loop.instructions, instructions * loop.matrix["HMMA"])

    def test_results_are_stored_by_stmatrix_where_there_is_one(self):
        for machine, stores in (("a100", 0), ("h200", 3)):
            code, _ = self.code_and_cards(machine)
            self.assertEqual(len(re.findall(r"\bSTSM\.16\.M88\.4\b", code.sass)), stores, machine)


def main():
    cubin.tools()
    return 0 if unittest.main(exit=False).result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(kernel_cards.run(main))
