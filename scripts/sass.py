"""Machine code of NVIDIA GPUs, as nvdisasm prints it: kernels, their basic blocks and loops, and what instructions access.

    for kernel in parse(text):          # the output of `nvdisasm -c FILE.cubin`
        for loop in kernel.loops: ...

A kernel's code is what its entry reaches without following calls: slow paths of divisions and the like are functions behind it.
"""

import dataclasses
import re

_SECTION = re.compile(r"^\t?\.section\s+\.text\.([^,\s]+)")
_ENTRY = re.compile(r'^\s*\.other\s+([^,\s]+),@"STO_CUDA_ENTRY')
_LABEL = re.compile(r"^([.$\w]+):\s*$")
_INSTRUCTION = re.compile(r"^\s+/\*([0-9a-f]+)\*/\s+(?:(@!?U?P[T\d]+)\s+)?([A-Z][\w.]*)\s*([^;]*);(.*)$")
_TARGET = re.compile(r"`\(([^)]+)\)")
_BRANCH_TARGETS = re.compile(r'BRANCH_TARGETS ([^"]+)"')
_REGISTER = re.compile(r"(?<!U)\bR(\d+)(\.64)?")

# What an instruction accesses, by its first word. Generic loads and stores count as global ones: the code does not tell.
_SPACES = {
    "LDG": ("global", "load"), "STG": ("global", "store"), "LD": ("global", "load"), "ST": ("global", "store"),
    "LDL": ("local", "load"), "STL": ("local", "store"), "LDS": ("shared", "load"), "STS": ("shared", "store"),
    "LDGSTS": ("global", "load"),
}  # fmt: skip
_WIDTHS = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16, "256": 32}
_JUMPS = ("BRA", "JMP", "BRX", "JMX", "BRXU", "JMXU")


@dataclasses.dataclass
class Instruction:
    address: int
    predicate: str  # "@P0", "@!UP1" or ""
    opcode: str  # LDG.E.U16
    operands: str
    targets: tuple  # labels

    @property
    def name(self):
        return self.opcode.split(".", 1)[0]

    @property
    def access(self):
        """(space, direction, bytes of a thread), or None."""
        if self.name not in _SPACES:
            return None
        widths = [_WIDTHS[w] for w in self.opcode.split(".")[1:] if w in _WIDTHS]
        return (*_SPACES[self.name], widths[-1] if widths else 4)

    @property
    def is_jump(self):
        return self.name in _JUMPS

    @property
    def is_unconditional(self):
        """Whether no thread goes on behind a jump: neither a predicate before it nor one among its operands."""
        if self.predicate not in ("", "@PT", "@UPT"):
            return False
        return self.name in ("BRX", "JMX", "BRXU", "JMXU") or not _TARGET.sub("", self.operands).strip(" ,")

    def registers(self):
        """The numbers of the general registers that it names, with the parts of vectors that are known to belong to them."""
        found, access = set(), self.access
        vector = access is not None and access[1] == "store" or self.name in ("LDL", "LDS", "LDG", "LD")
        last = (access[2] + 3) // 4 if access else 1
        wide = "WIDE" in self.opcode or self.name in ("DADD", "DMUL", "DFMA", "DSETP", "DMNMX")
        matrix = self.name in ("HMMA", "IMMA", "DMMA", "LDSM")
        for operand in _split(self.operands):
            for number, pair in _REGISTER.findall(operand):
                count = 4 if matrix else 2 if pair or wide else last if vector and "[" not in operand else 1
                found.update(range(int(number), int(number) + count))
        return found

    def loaded_registers(self):
        """Those that a load writes; an asynchronous copy writes none."""
        first = _REGISTER.match(_split(self.operands)[0]) if self.operands else None
        count = (self.access[2] + 3) // 4
        return set(range(int(first[1]), int(first[1]) + count)) if first else set()


@dataclasses.dataclass
class Block:
    instructions: list
    successors: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Loop:
    header: int
    blocks: frozenset  # numbers of blocks, those of loops in it among them
    parent: "Loop | None" = None

    def contains(self, other):
        return self is not other and self.blocks >= other.blocks


@dataclasses.dataclass
class Kernel:
    name: str  # mangled
    blocks: list
    loops: list  # outer ones first

    def instructions(self, blocks=None):
        """In the order of addresses; of all blocks unless some are given."""
        return [i for k in sorted(range(len(self.blocks)) if blocks is None else blocks)
                for i in self.blocks[k].instructions]  # fmt: skip


def _split(operands):
    """At commas outside of brackets."""
    parts, depth, start = [], 0, 0
    for k, c in enumerate(operands):
        depth += (c in "[(") - (c in "])")
        if c == "," and depth == 0:
            parts.append(operands[start:k].strip())
            start = k + 1
    return parts + [operands[start:].strip()]


def _reached(instructions, labels):
    """Indices of what the entry reaches, and the indices that follow each."""
    at = {i.address: k for k, i in enumerate(instructions)}
    successors, todo, seen = {}, [0], set()
    while todo:
        k = todo.pop()
        if k in seen or k >= len(instructions):
            continue
        seen.add(k)
        i = instructions[k]
        following = []
        if i.is_jump:
            following = [at[labels[t]] for t in i.targets if labels.get(t) in at]
        ends = i.is_jump or i.name in ("EXIT", "RET")
        if not (ends and (i.is_unconditional if i.is_jump else i.predicate in ("", "@PT"))):
            following.append(k + 1)
        successors[k] = [f for f in dict.fromkeys(following) if f < len(instructions)]
        todo += successors[k]
    return sorted(seen), successors


def _blocks(instructions, labels):
    reached, successors = _reached(instructions, labels)
    leaders = {0} | {f for k in reached for f in successors[k] if instructions[k].is_jump or f != k + 1}
    leaders |= {k + 1 for k in reached if instructions[k].is_jump or instructions[k].name in ("EXIT", "RET")}
    blocks, number, last = [], {}, None
    for k in reached:
        if k in leaders or last != k - 1:
            number[k] = len(blocks)
            blocks.append(Block([]))
        blocks[-1].instructions.append(instructions[k])
        last = k
    ends = {b.instructions[-1].address: b for b in blocks}
    for k in reached:
        block = ends.get(instructions[k].address)
        if block is not None:
            block.successors = [number[f] for f in successors[k]]
    return blocks


def _dominators(blocks):
    """The set of dominators of each block; block 0 is the entry."""
    predecessors = [[] for _ in blocks]
    for k, block in enumerate(blocks):
        for s in block.successors:
            predecessors[s].append(k)
    everything = frozenset(range(len(blocks)))
    found = [frozenset([0])] + [everything] * (len(blocks) - 1)
    changed = True
    while changed:
        changed = False
        for k in range(1, len(blocks)):
            before = [found[p] for p in predecessors[k]]
            now = (frozenset.intersection(*before) if before else frozenset()) | {k}
            if now != found[k]:
                found[k], changed = now, True
    return found, predecessors


def _loops(blocks):
    """Natural loops, one for all jumps to the same header; a backward jump into the middle of others spans the code between."""
    dominators, predecessors = _dominators(blocks)
    bodies = {}
    for tail, block in enumerate(blocks):
        for header in block.successors:
            if header > tail and header not in dominators[tail]:
                continue
            if header not in dominators[tail]:
                body = set(range(header, tail + 1))
            else:
                body, todo = {header}, [tail]
                while todo:
                    k = todo.pop()
                    if k not in body:
                        body.add(k)
                        todo += predecessors[k]
            bodies.setdefault(header, set()).update(body)
    loops = [Loop(h, frozenset(b)) for h, b in bodies.items()]
    loops.sort(key=lambda loop: (-len(loop.blocks), loop.header))
    for k, loop in enumerate(loops):
        outer = [o for o in loops[:k] if o.contains(loop)]
        loop.parent = outer[-1] if outer else None
    return loops


def _kernel(name, instructions, labels):
    blocks = _blocks(instructions, labels)
    return Kernel(name, blocks, _loops(blocks))


def parse(text):
    """The kernels of a disassembly, by name. Functions that kernels call have no card of their own."""
    sections, entries = {}, set()
    instructions, labels, pending = [], {}, []
    for line in text.splitlines():
        if match := _SECTION.match(line):
            instructions, labels, pending = [], {}, []
            sections[match[1]] = (instructions, labels)
        elif match := _ENTRY.match(line):
            entries.add(match[1])
        elif match := _LABEL.match(line):
            pending.append(match[1])
        elif match := _INSTRUCTION.match(line):
            address = int(match[1], 16)
            labels.update((label, address) for label in pending)
            pending.clear()
            operands = match[4].strip()
            targets = _TARGET.findall(operands)
            for listed in _BRANCH_TARGETS.findall(line):
                targets += listed.split(",")
            instructions.append(
                Instruction(address, match[2] or "", match[3], operands, tuple(t.strip() for t in targets))
            )
    return [
        _kernel(name, *sections[name]) for name in sorted(sections) if name in entries and sections[name][0]
    ]
