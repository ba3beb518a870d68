"""Small graphs on which a rule of thumb goes wrong. Costs are given in ns, so their optimum is a number."""

from __future__ import annotations

from braid_text import Buffer, Graph


class Small(Graph):
    """A graph over one group of two ranks whose kernels have explicit costs."""

    def __init__(self, name: str, groups: int = 1):
        super().__init__(name, 2, {f"g{k}": [0, 1] for k in range(groups)})
        self.x = self.input("x", (64,), "f32")

    def compute(self, name: str, ns: int, *reads: Buffer) -> Buffer:
        return self.kernel(name, "work", (64,), list(reads) or [self.x], dtype="f32", ns=ns)

    def reduce(self, name: str, ns: int, operand: Buffer, group: int = 0) -> Buffer:
        staged = self.kernel(f"{name}.in", "work", (64,), [operand], dtype="f32", ns=0, comm=f"g{group}")
        return self.collective(name, "all_reduce sum", f"g{group}", staged, ns=ns)


def long_tail() -> Small:
    """First come, first served starts the short collective before the one whose consumer is long."""
    g = Small("long_tail")
    a, b = g.reduce("short", 1000, g.compute("a", 100)), g.reduce("long", 4000, g.compute("b", 100))
    g.output(g.compute("after_short", 100, a))
    g.output(g.compute("after_long", 6000, b))
    g.output(g.compute("filler", 3000))
    return g


def filler_too_large() -> Small:
    """A large independent kernel hides a short collective but delays the chain that follows it."""
    g = Small("filler_too_large")
    r = g.reduce("first", 500, g.compute("a", 100))
    r = g.reduce("second", 4000, g.compute("b", 100, r))
    g.output(g.compute("end", 100, r))
    g.output(g.compute("large", 4000))
    g.output(g.compute("small", 500))
    return g


def chain_or_fan() -> Small:
    """The collective that blocks most nodes is not the one on the critical path."""
    g = Small("chain_or_fan")
    fan = g.reduce("fan", 2000, g.compute("a", 500))
    for k in range(2):
        g.output(g.compute(f"leaf{k}", 400, fan))
    r = g.compute("b", 500)
    for k in range(2):
        r = g.compute(f"link{k}", 300, g.reduce(f"chain{k}", 1500, r))
    g.output(r)
    return g


def two_channels() -> Small:
    """Work of one communicator hides that of the other only if both start early."""
    g = Small("two_channels", groups=2)
    a, b = g.compute("a", 1000), g.compute("b", 1000)
    g.output(g.compute("after_a", 800, g.reduce("ra", 3000, a, 0)))
    g.output(g.compute("after_b", 800, g.reduce("rb", 3000, b, 1)))
    g.output(g.compute("free", 1500))
    return g


def late_gather() -> Small:
    """Gathers without inputs: raising all of them blocks the channel for the reduction that everybody waits for."""
    g = Small("late_gather")
    w = [g.reduce(f"w{k}", 1500, g.x) for k in range(3)]
    y = g.reduce("urgent", 500, g.compute("a", 300))
    for k in range(3):
        y = g.compute(f"layer{k}", 1200, y, w[k])
    g.output(y)
    return g


def split_work() -> Small:
    """Uneven fillers have to be divided between two collectives: a small partition problem."""
    g = Small("split_work")
    r = g.reduce("one", 1700, g.compute("a", 100))
    r = g.reduce("two", 1300, g.compute("b", 100, r))
    g.output(g.compute("end", 100, r))
    for k, ns in enumerate((900, 800, 700, 600)):
        g.output(g.compute(f"filler{k}", ns))
    return g


ALL = (long_tail, filler_too_large, chain_or_fan, two_channels, late_gather, split_work)
