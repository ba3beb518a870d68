"""The cases of a bundle, and fingerprints of all that decides the result of a row but the machine."""

import collections
import functools
import hashlib
import pathlib
import re

Case = collections.namedtuple("Case", "id library program source kind dtype ranks bytes flops text")

SIZES = {"bool": 1, "i8": 1, "u8": 1, "i16": 2, "u16": 2, "f16": 2, "bf16": 2, "i32": 4, "u32": 4, "f32": 4}
INCLUDE = re.compile(r'^\s*#include "(runtime/[A-Za-z0-9_./]+)"', re.M)


def read_cases(path):
    """`text` holds the lines of a case but the name of its library, which moves when other programs come or go."""
    cases, current, text = [], {}, []

    def finish():
        if current:
            cases.append(Case(text="\n".join(text), **current))

    for line in path.read_text(encoding="utf-8").splitlines():
        words = line.split()
        if words[0] == "case":
            finish()
            current, text = {"id": words[1]}, []
        if words[0] == "program":
            current.update(library=words[1], program=words[2], source=words[3] if len(words) > 3 else "")
            continue
        if words[0] == "about":
            current.update(kind=words[1], dtype=words[2], ranks=int(words[3]))
        elif words[0] == "work":
            current.update(bytes=int(words[1]), flops=int(words[2]))
        text.append(line)
    finish()
    return cases


def short_hash(*parts):
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part if isinstance(part, bytes) else str(part).encode())
        digest.update(b"\0")
    return digest.hexdigest()[:16]


class Fingerprints:
    """`root` has programs/, runtime/, cases.txt and cases.data; `harness` the files of bench/gpu."""

    def __init__(self, root, harness, emulated):
        self.root, self.harness, self.emulated = root, harness, emulated
        self.texts = {}

    def bundle(self):
        """Of all programs, cases and the runtime: another bundle has another one."""
        files = [
            p for folder in ("programs", "runtime") for p in (self.root / folder).rglob("*") if p.is_file()
        ]
        digest = hashlib.sha256()
        for path in sorted([self.root / "cases.txt", self.root / "cases.data", *files]):
            digest.update(f"{path.relative_to(self.root)} {path.stat().st_size}\n".encode())
            digest.update(path.read_bytes())
        return digest.hexdigest()[:16]

    def text(self, name):
        if name not in self.texts:
            path = self.root / name
            self.texts[name] = path.read_text(encoding="utf-8") if path.exists() else ""
        return self.texts[name]

    @functools.cached_property
    def data(self):
        path = self.root / "cases.data"
        return path.read_bytes() if path.exists() else b""

    def includes(self, *texts):
        """The names of the runtime's files that these texts include. The emulated device is part of emulated results only."""
        found, left = set(), [name for text in texts for name in INCLUDE.findall(text)]
        while left:
            name = left.pop()
            if name in found or (name.startswith("runtime/emulated/") and not self.emulated):
                continue
            found.add(name)
            left += INCLUDE.findall(self.text(name))
        return found

    @functools.cached_property
    def instance(self):
        """What every program is linked with."""
        folders = ("runtime/cuda", *(["runtime/emulated"] if self.emulated else []))
        names = {f"{folder}/{p.name}" for folder in folders for p in (self.root / folder).glob("*.c[cu]")}
        return names | self.includes(*(self.text(name) for name in names))

    @functools.lru_cache(maxsize=None)  # noqa: B019
    def runtime(self, text):
        names = self.instance | self.includes(text)
        return short_hash(*(part for name in sorted(names) for part in (name, self.text(name))))

    def stored(self, line):
        """A line of a case with the bytes of cases.data in place of their offset, which moves when other cases come or go."""
        words = line.split()
        if words[0] == "stored":
            count = int(words[2])
        elif words[0] == "expected":
            count = -(-int(words[4]) // int(words[5])) * SIZES.get(words[3], 8)
        else:
            return line
        at = int(words[-1])
        return " ".join([*words[:-1], short_hash(self.data[at : at + count])])

    @functools.lru_cache(maxsize=None)  # noqa: B019
    def case(self, case):
        library = self.text(f"programs/{case.library}.cu")
        lines = [self.stored(line) for line in case.text.splitlines()]
        return short_hash(case.program, case.source or library, self.runtime(library), *lines)

    def files(self, *names):
        """Of files of the harness."""
        return short_hash(*(part for name in names for part in (name, (self.harness / name).read_bytes())))

    def harness_with_runtime(self, name):
        text = (self.harness / name).read_text(encoding="utf-8")
        return short_hash(text, self.runtime(text))


HARNESS = pathlib.Path(__file__).resolve().parent
