"""Writes random cases of every operator of every family below a folder, one folder per operator:

    make_cases.py DIR [--only OPERATOR]

Case i of an operator depends on the seed BRAID_TEST_SEED + i only. BRAID_RANDOM_SCALE is how many times the cases of the
fast tier are made.
"""

import argparse
import os
import shutil
import zlib

import attention
import axes
import classical
import convolution
import elementwise
import fused
import indexing
import matrices
import normalization
import numpy as np
import pooling
import quantisation
import rearranging
import recurrence
import reference_case
import resize
import sampling
import selection
import signals
import trees

FAMILIES = [attention, axes, classical, convolution, elementwise, fused, indexing, matrices, normalization, pooling, quantisation,
            rearranging, recurrence, resize, sampling, selection, signals, trees]  # fmt: skip
FAST_CASES = 8


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--only", help="one operator")
    arguments = parser.parse_args()
    first = int(os.environ.get("BRAID_TEST_SEED", "1"))
    count = max(1, int(FAST_CASES * float(os.environ.get("BRAID_RANDOM_SCALE", "1"))))
    if arguments.only is None:
        shutil.rmtree(arguments.folder, ignore_errors=True)
    for family in FAMILIES:
        for operator, make in family.OPERATORS.items():
            if arguments.only not in (None, operator):
                continue
            root = os.path.join(arguments.folder, operator)
            shutil.rmtree(root, ignore_errors=True)
            for seed in range(first, first + count):
                rng = np.random.Generator(np.random.PCG64([zlib.crc32(operator.encode()), seed]))
                with np.errstate(all="ignore"):
                    try:
                        reference_case.write(make(rng), os.path.join(root, f"seed_{seed}"))
                    except AssertionError as difference:
                        raise AssertionError(f"{operator}, seed {seed}: two references disagree") from difference


if __name__ == "__main__":
    main()
