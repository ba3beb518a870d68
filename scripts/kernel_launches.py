"""Threads and dynamic shared memory of the launches in a generated source.

launches(text)["braid_cuda_gpt2", "softmax_kernel"]     # Launch(threads=512, shared=0), None where only the run knows it
"""

import dataclasses
import pathlib
import re

RUNTIME = pathlib.Path(__file__).resolve().parent.parent / "runtime"
_CALL = "BRAID_LAUNCH("
_NAMESPACE = re.compile(r"^namespace (braid_cuda_\w+) \{", re.MULTILINE)
_CONSTANT = re.compile(r"constexpr \w+ (k\w+) = (\d+)[;,]")
_MOST_IN_ROW = 512  # Instance::block_for
_TILE = re.compile(r"using (\w+) = ProductTile<([\d, ]+)>;")
_STAGES, _BYTES_OF_LINE = 4, 64  # by default; of a stage (runtime/device/product_tile.h)


def _tiles():
    """Of each tile of a product: rows, columns, warps down, warps across, stages."""
    text = (RUNTIME / "device" / "product_tile.h").read_text(encoding="utf-8")
    found = {name: tuple(int(n) for n in numbers.split(",")) for name, numbers in _TILE.findall(text)}
    return {name: numbers if len(numbers) == 5 else (*numbers, _STAGES) for name, numbers in found.items()}


def with_tile_names(kernel):
    """ "tile_product_kernel<LargeTile>", where a compiler says what the name stands for."""
    names = {numbers: name for name, numbers in _tiles().items()}

    def name_of(match):
        return names.get(tuple(int(n) for n in match[1].split(",")), match[0])

    return re.sub(r"\bbraid::rt::device::ProductTile<([\d, ]+)>\s*", name_of, kernel)


@dataclasses.dataclass
class Launch:
    threads: int | None
    shared: int | None
    threads_are_the_most: bool = False  # a row may be shorter


def _arguments(text, begin):
    """Of the call whose arguments begin there."""
    out, depth, start = [], 0, begin
    for k in range(begin, len(text)):
        if text[k] in "([{":
            depth += 1
        elif text[k] in ")]}":
            depth -= 1
        if depth < 0 or text[k] == "," and depth == 0:
            out.append(text[start:k].strip())
            start = k + 1
        if depth < 0:
            return out
    return out


def _number(text, constants):
    """A product or sum of literals and known constants, or None."""
    text = re.sub(r"(?:\w+::)*(k[A-Z]\w*)", lambda m: str(constants.get(m[0], constants.get(m[1], "?"))), text)
    text = re.sub(r"(?<=\d)[uUlL]+\b", "", text)
    if not re.fullmatch(r"[\d\s()*+\-/]+", text) or "**" in text:
        return None
    try:
        value = int(eval(text.replace("/", "//"), {"__builtins__": {}}))  # digits and operators only
    except (SyntaxError, TypeError, ZeroDivisionError):
        return None
    return value if value >= 0 else None


def _threads(text, constants):
    if match := re.fullmatch(r"block_for\((.*)\)", text, re.DOTALL):
        elements = _number(match[1], constants)
        if elements is None:
            return _MOST_IN_ROW, True
        return min(_MOST_IN_ROW, max(32, (elements + 31) // 32 * 32)), False
    if match := re.fullmatch(r"dim3\((.*)\)", text, re.DOTALL):
        sides = [_number(a, constants) for a in _arguments(match[1] + ")", 0)]
        product = 1
        for side in sides:
            product = None if product is None or side is None else product * side
        return product, False
    return _number(text, constants), False


def _constants(text):
    found = {}
    for path in sorted(RUNTIME.glob("device/*.h")):
        found.update(
            (name, int(value)) for name, value in _CONSTANT.findall(path.read_text(encoding="utf-8"))
        )
    found.update((name, int(value)) for name, value in _CONSTANT.findall(text))
    for tile, (rows, columns, down, across, stages) in _tiles().items():
        found[f"{tile}::kThreads"] = 32 * down * across
        found[f"{tile}::kSharedBytes"] = stages * (rows + columns) * _BYTES_OF_LINE
    return found


def launches(text):
    """By namespace of the program and kernel, template arguments among its name. Of several launches, the one with the most threads."""
    constants, found = _constants(text), {}
    starts = [(m.start(), m[1]) for m in _NAMESPACE.finditer(text)]
    at = text.find(_CALL)
    while at >= 0:
        arguments = _arguments(text, at + len(_CALL))
        if len(arguments) >= 4:
            kernel = arguments[0].strip("() \n")
            namespace = ([name for start, name in starts if start < at] or [""])[-1]
            threads, most = _threads(arguments[2], constants)
            launch = Launch(threads, _number(arguments[3], constants), most)
            other = found.get((namespace, kernel))
            if other is None or (launch.threads or 0) > (other.threads or 0):
                found[namespace, kernel] = launch
        at = text.find(_CALL, at + 1)
    return found
