"""Writes IR text (docs/ir.md) of graphs that exist to be scheduled: kernels without bodies, collectives, real buffers."""

from __future__ import annotations

from dataclasses import dataclass, field

BYTES = {"bf16": 2, "f32": 4, "i64": 8}

# The class of each kernel (docs/scheduling.md), which decides what share of the machine's peaks it reaches. None: `other`.
CLASSES = {
    "accumulate": None,
    "adamw": "elementwise",
    "add_layer_norm": "reduction",
    "attention": "attention",
    "attention_backward": "attention",
    "batch_norm_backward": "reduction",
    "batch_norm_relu": "reduction",
    "conv": "conv",
    "conv_dgrad": "conv",
    "conv_wgrad": "conv",
    "copy_in": "copy",
    "cross_entropy": "reduction",
    "embedding_gather": "gather",
    "embedding_scatter": "gather",
    "gelu": "elementwise",
    "gelu_backward": "elementwise",
    "gemm": "gemm",
    "gemm_wgrad": "gemm",
    "layer_norm_backward": "reduction",
    "permute_gather": "gather",
    "residual_add": "elementwise",
    "rms_norm": "reduction",
    "rms_norm_backward": "reduction",
    "rope": "elementwise",
    "rope_backward": "elementwise",
    "sgd": "elementwise",
    "swiglu": "elementwise",
    "swiglu_backward": "elementwise",
    "topk_route": "reduction",
    "unpermute_add": "gather",
    "work": None,
}


@dataclass(frozen=True)
class Buffer:
    """A version of a buffer: its name in the text, its shape and type."""

    name: str
    shape: tuple[int, ...]
    dtype: str = "bf16"

    @property
    def elements(self) -> int:
        n = 1
        for s in self.shape:
            n *= s
        return n

    @property
    def bytes(self) -> int:
        return self.elements * BYTES[self.dtype]

    @property
    def type(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


@dataclass
class Graph:
    """Operations in the order in which an eager framework runs them: every collective is waited for at once."""

    name: str
    ranks: int
    groups: dict[str, list[int]]
    _declarations: list[str] = field(default_factory=list)
    _lines: list[str] = field(default_factory=list)
    _outputs: list[str] = field(default_factory=list)
    _constants: int = 0

    def group_size(self, group: str) -> int:
        return len(self.groups[group])

    def input(self, name: str, shape: tuple[int, ...], dtype: str = "bf16") -> Buffer:
        b = Buffer(name, shape, dtype)
        self._declarations.append(f"input %{name}: {b.type}")
        return b

    def constant(self, name: str, shape: tuple[int, ...], dtype: str = "bf16") -> Buffer:
        b = Buffer(name, shape, dtype)
        self._constants += 1
        self._declarations.append(f"constant %{name}: {b.type} = elided(0x{self._constants:016x})")
        return b

    def kernel(self, name: str, callee: str, shape: tuple[int, ...], reads: list[Buffer], *, flops: float = 0,
               moved: int | None = None, dtype: str = "bf16", comm: str | None = None, output: bool = False,
               ns: int | None = None) -> Buffer:
        """`moved`: bytes of memory traffic; all of the operands and the result, if not given. `comm`: the result lies in
        the communication segment, registered with that group. `ns`: an explicit cost instead of flops and bytes."""
        out = Buffer(name, shape, dtype)
        if moved is None:
            moved = out.bytes + sum(r.bytes for r in reads)
        place = f" comm(registered, @{comm})" if comm else (" output" if output else "")
        kind = f"{CLASSES[callee]}, " if CLASSES[callee] else ""
        cost = f"cost({kind}ns {ns})" if ns is not None else f"cost({kind}flops {int(flops)}, bytes {int(moved)})"
        operands = ", ".join(f"%{r.name}" for r in reads)
        self._lines.append(f'%{name}: {out.type}{place} = extern "{callee}" reads({operands}) {cost}')
        if output:
            self._outputs.append(name)
        return out

    def collective(self, name: str, kind: str, group: str, operand: Buffer, *, output: bool = False,
                   ns: int | None = None) -> Buffer:
        """Start, wait and release, one right behind the other. all_reduce works in place."""
        n = self.group_size(group)
        cost = f" cost(ns {ns})" if ns is not None else ""
        if kind.startswith("all_reduce"):
            started = f"{name}.s"
            self._lines.append(f"%{started} mutates %{operand.name} = {kind} @{group} (%{operand.name}){cost}")
            out = Buffer(f"{name}", operand.shape, operand.dtype)
            self._lines.append(f"%{name} mutates %{started} = wait {started}")
            self._lines.append(f"release {started}")
            return out
        first = operand.shape[0]
        if kind == "all_gather":
            first *= n
        elif kind.startswith("reduce_scatter"):
            assert first % n == 0, (name, operand.shape, n)
            first //= n
        started = Buffer(f"{name}.s", (first, *operand.shape[1:]), operand.dtype)
        place = " output" if output else f" comm(registered, @{group})"
        self._lines.append(f"%{started.name}: {started.type}{place} = {kind} @{group} (%{operand.name}){cost}")
        self._lines.append(f"%{name} mutates %{started.name} = wait {started.name}")
        self._lines.append(f"release {started.name}")
        if output:
            self._outputs.append(name)
        return Buffer(name, started.shape, started.dtype)

    def output(self, buffer: Buffer) -> None:
        self._outputs.append(buffer.name)

    def text(self) -> str:
        head = [f"graph {self.name}", f"ranks {self.ranks}"]
        head += [f"group @{g} = [{', '.join(map(str, r))}]" for g, r in self.groups.items()]
        return "\n".join([*head, "", *self._declarations, "", *self._lines, "",
                          *(f"output %{o}" for o in self._outputs), ""])
