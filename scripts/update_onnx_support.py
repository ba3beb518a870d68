#!/usr/bin/env python3
"""Writes docs/onnx-support.md from a run of ONNX's test cases by the interpreter.

  scripts/python_run.sh scripts/update_onnx_support.py build/release/bin/braid build/release/onnx_cases [--check]

The cases are those of tests/models/make_onnx_cases.py; `ctest --preset release -R models/make_onnx_cases` writes them. With
--check nothing is written: the exit code is 1 if the page differs from the run or a case fails, 77 if there are no cases.
"""

import argparse
import collections
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import onnx

PAGE = pathlib.Path(__file__).resolve().parent.parent / "docs" / "onnx-support.md"
SUITES = ("node", "simple", "pytorch-operator", "pytorch-converted", "light")
HEAD = """# ONNX's test cases

Written by `scripts/update_onnx_support.py` from a run of ONNX {version}'s backend test cases by the interpreter; a test fails if
the run gives anything else. Do not edit it.

Programs have static types. Sizes follow from the sizes of inputs or are measured by the step, up to a capacity
([ir.md](ir.md#sizes-that-a-step-measures)); all cases run with `--capacity 32`. ONNX's cases pass everything as graph inputs, also
what models hold as constants: axes, pads, target shapes. "Bound" is the run with `braid test --bind-shapes`, which makes constants
of the inputs on which sizes, axes or choices depend, with the values of the case. Tolerances are those of `braid test`: ONNX's 1e-3
relative and 1e-7 absolute, at least 1e-2 and 1e-3 for half types. The light suite, whole networks, runs compiled to C++.

Where references disagree, ONNX's evaluator and test data hold: MaxUnpool with sizes given counts indices through the sizes that
follow from its attributes, of which the result is a corner; ONNX Runtime counts them through the sizes given.

Negative padding, which SAME asks of pools whose stride exceeds the window, is halved and rounded to zero, as by ONNX Runtime's
LpPool and AveragePool. MaxPool is NaN where its window has a NaN, as in the evaluator.

Attention that is spelled out (MatMul, masks, Softmax, MatMul) gives NaN for a row that is masked everywhere, and zeros where a
Where replaces NaN; the operator Attention gives zeros. Keys that the operator's causal limit, window or number of valid keys exclude
do not count even if their score is NaN or infinite. If the value of such a key is not finite, its row may be NaN or not.

CUDA programs have every operator of the C++ target but those that follow, which the target refuses by name (BR0640). All other node
cases run as CUDA programs on the emulated device (`tests/codegen_cuda/onnx_cases_test.cc`) and pass.

| refused as | operators | reason |
|---|---|---|
| `extern kernel 'quantised_lstm'` | com.microsoft.DynamicQuantizeLSTM | its state is quantised at each step, and the products are of bytes |
| `a 'branch' region` | If whose condition a run decides | the host would have to wait for the device within a step |
| `a 'repeat' region`, `a 'while' region` | Loop whose number of iterations or end a run decides | the same |
| `the size '...'` | sizes that the data decide: NonZero, Unique, NonMaxSuppression and what depends on them | the same |
"""


# Whole networks, for which the interpreter takes minutes; they run compiled.
COMPILED = ("light",)


def run(braid, suite, folders, options):
    """Outcome and error of each case, by name."""
    with tempfile.TemporaryDirectory() as temporary:
        report = pathlib.Path(temporary) / "report.json"
        target = "cpu" if suite in COMPILED else "interpreter"
        command = [braid, "test", "--target", target, "-q", "--report", report, *options, *folders]
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        cases = {pathlib.Path(entry["case"]).name: entry for entry in json.loads(report.read_text())}
        return without_drawn(cases)


# The files hold what one implementation drew, which ONNX does not fix.
DRAWN = ("test_bernoulli_seed", "test_bernoulli_seed_expanded")


def without_drawn(cases):
    """The cases, those whose numbers are not fixed as refused."""
    error = {"number": "", "message": "drawn at random: ONNX does not fix the numbers", "operator": ""}
    return {
        name: {**entry, "outcome": "refused", "error": error} if name in DRAWN and entry["outcome"] == "failed" else entry
        for name, entry in cases.items()
    }


def qualified(domain, name):
    return name if domain in ("", "ai.onnx") else f"{domain}.{name}"


def operators_of_node_cases(folder):
    """The operator that each node case tests; cases with its function body belong to it too."""
    operators = {}
    for case in sorted(folder.iterdir()):
        node = onnx.load(case / "model.onnx", load_external_data=False).graph.node[0]
        operators[case.name] = qualified(node.domain, node.op_type)
    for name in operators:
        base = re.sub(r"_expanded(_ver\d+)?$", "", name)
        operators[name] = operators.get(base, operators[name])
    return operators


def implemented_versions(braid):
    versions = collections.defaultdict(list)
    for row in json.loads(subprocess.check_output([braid, "ops", "--json"]))["operators"]:
        first, last = row["first_version"], row["last_version"]
        versions[qualified(row["domain"], row["name"])].append(
            str(first) if first == last else f"{first}-{last}"
        )
    return {name: ", ".join(ranges) for name, ranges in versions.items()}


def reason(error):
    """Why a case is refused, without names of its nodes and values."""
    message = error["message"]
    if error["number"] == "BR0109":
        lines = re.findall(r"^ *(\S+) \(node .*?\): (.*)$", message, re.MULTILINE)
        reasons = collections.defaultdict(list)
        for operator, why in lines:
            reasons[why].append(operator)
        message = "; ".join(
            f"{', '.join(sorted(operators))} {why}" for why, operators in sorted(reasons.items())
        )
    else:
        message = re.sub(r"\b(\w+) '[^']*' ", r"the \1 ", message.split("\n")[0])
        message = re.sub(r"'[^']*'", "a value", message)
        if error["operator"]:
            message = f"{error['operator']}: {message}"
    return f"{error['number']} {message}".strip()


def count(cases, outcome):
    return sum(entry["outcome"] == outcome for entry in cases.values())


def page(braid, root):
    """The text, and the names of cases that fail."""
    unbound, bound = {}, {}
    for suite in SUITES:
        folders = sorted(str(case) for case in (root / suite).iterdir())
        unbound[suite] = run(braid, suite, folders, ["--capacity", "32"])
        # Networks that all pass as they are need no binding, and a second compilation is dear.
        done = suite in COMPILED and count(unbound[suite], "passed") == len(folders)
        bound[suite] = unbound[suite] if done else run(braid, suite, folders, ["--bind-shapes"])
    lines = [HEAD.format(version=onnx.__version__), "## Totals", ""]
    lines += ["| suite | cases | pass | pass bound | refused bound | wrong |", "|---|---|---|---|---|---|"]
    for suite in SUITES:
        wrong = count(unbound[suite], "failed") + count(bound[suite], "failed")
        lines.append(
            f"| {suite} | {len(bound[suite])} | {count(unbound[suite], 'passed')} | {count(bound[suite], 'passed')} "
            f"| {count(bound[suite], 'refused')} | {wrong} |"
        )
    lines += ["", "## Operators", ""]
    lines.append(
        "Node cases that pass, of all cases of the operator. Versions are those of `braid ops`; where there are none, cases pass "
        "through the operator's function body, or not at all."
    )
    lines += ["", "| operator | versions | pass | pass bound |", "|---|---|---|---|"]
    operators, versions = operators_of_node_cases(root / "node"), implemented_versions(braid)
    by_operator = collections.defaultdict(list)
    for name, operator in operators.items():
        by_operator[operator].append(name)
    for operator, names in sorted(by_operator.items(), key=lambda item: (item[0].count("."), item[0])):
        passing = [
            sum(outcomes["node"][name]["outcome"] == "passed" for name in names)
            for outcomes in (unbound, bound)
        ]
        lines.append(
            f"| {operator} | {versions.get(operator, '')} | {passing[0]}/{len(names)} | {passing[1]}/{len(names)} |"
        )
    lines += ["", "## Refused with bound inputs", ""]
    lines.append("Numbers are explained in [errors.md](errors.md). Names of node cases are without `test_`.")
    groups = collections.defaultdict(list)
    for suite in SUITES:
        for name, entry in bound[suite].items():
            if entry["outcome"] == "refused":
                short = name.removeprefix("test_")
                groups[reason(entry["error"])].append(short if suite == "node" else f"{suite}/{short}")
    for why, names in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0])):
        lines += ["", f"**{why}** ({len(names)}): {', '.join(sorted(names))}"]
    failed = sorted(
        name
        for runs in (unbound, bound)
        for cases in runs.values()
        for name, e in cases.items()
        if e["outcome"] == "failed"
    )
    return "\n".join(lines) + "\n", failed


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("braid", help="the program")
    parser.add_argument("cases", type=pathlib.Path, help="folder of make_onnx_cases.py")
    parser.add_argument("--check", action="store_true", help="compare only")
    arguments = parser.parse_args()
    if not (arguments.cases / "fingerprint").exists():
        print(f"no cases in {arguments.cases}")
        return 77
    text, failed = page(arguments.braid, arguments.cases)
    for name in failed:
        print(f"wrong: {name}")
    if not arguments.check:
        PAGE.write_text(text, encoding="utf-8")
    elif text != PAGE.read_text(encoding="utf-8"):
        print(f"{PAGE.name} is not what the run gives; write it again with scripts/update_onnx_support.py")
        return 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
