#!/usr/bin/env python3
"""Cards (scripts/kernel_cards.py) of recorded machine code: kernels.sass is what nvcc and nvdisasm made of kernels.cu.

kernel_cards_test.py --record writes kernels.sass and kernels.ptxas anew, and needs both tools; the tests need neither.
"""

import contextlib
import io
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "scripts"))
import cubin
import kernel_cards
import sass
import update_kernel_cards
from kernel_launches import launches
from machine_file import UserError, load_gpu

SASS = HERE / "kernels.sass"
PTXAS = HERE / "kernels.ptxas"
LAUNCHES = """
namespace braid_cuda_cards {
  BRAID_TRY(BRAID_LAUNCH(halves, grid_for(count, 256), 256, 0, compute_, at<float>(x_, 0), n));
  BRAID_TRY(BRAID_LAUNCH(quotients, grid_for(n, 1), block_for(n), 0, stream, x));
  BRAID_TRY(BRAID_LAUNCH((staged), grid_for(n, 1), dim3(16, 16), 2 * 1024, stream, x));
  BRAID_TRY(BRAID_LAUNCH(vectors, 1, device::kPeerThreads, rows, stream, x));
}
"""


def cards(text=None, launched=LAUNCHES, resources=None):
    """By the kernel's name."""
    code = cubin.Code(
        cubin.resources(PTXAS.read_text()) if resources is None else resources,
        SASS.read_text() if text is None else text,
        0,
    )
    return {c.kernel: c for c in kernel_cards.cards_of(code, launched, 256, load_gpu("h200"))}


def cell(card, column):
    return kernel_cards.cells(card)[column]


def changed_kernel(name, change):
    """The recorded text with change(section) in the place of one kernel's section."""
    sections = re.split(r"(?=^\t\.section\t\.text\.)", SASS.read_text(), flags=re.MULTILINE)
    at = [k for k, s in enumerate(sections) if re.match(rf"\t\.section\t\.text\.\w*\d{name}E", s)]
    assert len(at) == 1, name
    section = change(sections[at[0]])
    assert section != sections[at[0]], "the mutant changes nothing"
    return "".join([*sections[: at[0]], section, *sections[at[0] + 1 :]])


class RecordedKernels(unittest.TestCase):
    def test_a_grid_stride_loop_of_halves(self):
        c = cards()["halves"]
        self.assertEqual((cell(c, "loads"), cell(c, "stores"), cell(c, "loop")), ("U16 x1", "U16 x1", "1"))
        self.assertEqual((cell(c, "instructions"), cell(c, "instructions per 16 bytes")), ("10", "40.0"))
        self.assertEqual(
            (cell(c, "bytes ahead"), cell(c, "KiB ahead per SM"), cell(c, "of 16 bytes")), ("2", "4.0", "0%")
        )

    def test_a_loop_of_vectors_and_its_tail(self):
        c = cards()["vectors"]
        self.assertEqual((cell(c, "loads"), cell(c, "loop")), ("32 x1 128 x4", "1 + 1 tail"))
        self.assertEqual([r.kind for r in c.regions], ["loop", "tail"])
        self.assertEqual(
            (cell(c, "loads ahead"), cell(c, "bytes ahead"), cell(c, "of 16 bytes")), ("4", "64", "100%")
        )
        self.assertEqual((c.regions[0].load_bytes, c.regions[0].store_bytes, c.regions[1].bytes), (64, 64, 8))

    def test_without_a_loop_the_whole_kernel_counts(self):
        c = cards()["single"]
        self.assertEqual((cell(c, "loop"), c.regions[0].instructions), ("none", c.instructions))
        self.assertEqual(
            (cell(c, "loads"), cell(c, "instructions per 16 bytes")), ("U8 x1", f"{8 * c.instructions:.1f}")
        )

    def test_the_slow_path_of_a_division_is_a_call_in_the_inner_loop(self):
        kernel = next(k for k in sass.parse(SASS.read_text()) if "quotients" in k.name)
        self.assertEqual([loop.parent is None for loop in kernel.loops], [True, False])
        c = cards()["quotients"]
        self.assertEqual(cell(c, "calls in loops"), "1 (__cuda_sm3x_div_rn_noftz_f32_slowpath)")
        self.assertEqual((c.regions[0].load_bytes, c.regions[0].store_bytes), (4, 4))
        self.assertLess(c.instructions, 60)  # without the slow path itself

    def test_spilled_registers(self):
        c = cards()["spilling"]
        self.assertEqual(c.registers, 32)
        self.assertGreater(c.spilled, 32)
        self.assertGreater(min(c.local.values()), 0)
        self.assertIn(f"{c.local['LDL']} LDL", cell(c, "spilled"))

    def test_a_load_for_the_next_round_is_ahead_across_the_end_of_the_loop(self):
        c = cards()["pipelined"]
        self.assertEqual(
            (cell(c, "loads ahead"), cell(c, "bytes ahead"), cell(c, "loads")), ("1", "8", "64 x2")
        )

    def test_jumps_by_table_stay_in_their_loop(self):
        c = cards()["table"]
        self.assertEqual((cell(c, "loop"), cell(c, "stores"), c.atomics), ("1", "32 x2", 1))
        self.assertEqual((c.regions[0].load_bytes, c.regions[0].store_bytes), (32, 8))

    def test_a_loop_that_moves_nothing_belongs_to_the_one_around_it(self):
        c = cards()["staged"]
        self.assertEqual((cell(c, "loop"), c.regions[0].bytes, cell(c, "shared")), ("1", 8, "1024 + 2048"))


class Page(unittest.TestCase):
    def test_the_example_of_the_documentation_is_what_the_script_prints(self):
        page = update_kernel_cards.rows(
            (ROOT / "docs/cuda.md").read_text().split("\n## Kernel cards\n")[1].split("\n## ")[0]
        )
        found = update_kernel_cards.rows(kernel_cards.table(cards(launched="").values()))
        self.assertEqual([kernel for _, kernel in page], ["halves", "vectors"])
        self.assertEqual(page, {key: found[key] for key in page})

    def test_what_an_h200_needs_in_flight_and_may_issue(self):
        gpu = load_gpu("h200")
        flight = gpu.copy_gb_s * 1e9 * gpu.dram_latency_us * 1e-6 / gpu.multiprocessors
        issue = (
            gpu.issue_per_cycle * gpu.clock_mhz * 1e6 * gpu.multiprocessors * 32 / (gpu.copy_gb_s * 1e9 / 16)
        )
        page = (ROOT / "docs/cuda.md").read_text()
        stated = (
            re.search(r"/ multiprocessors`, (\d+) KiB", page),
            re.search(r"H200 issue (\d+) per 16 bytes", page),
        )
        self.assertEqual([int(m[1]) for m in stated], [round(flight / 1024), round(issue)])


class Loops(unittest.TestCase):
    """Small texts in the form of nvdisasm."""

    def kernel(self, lines):
        text = '\t.section\t.text.k,"ax",@progbits\n        .other          k,@"STO_CUDA_ENTRY STV_DEFAULT"\n'
        address = 0
        for line in lines.strip().splitlines():
            line = line.strip()
            if line.endswith(":"):
                text += line + "\n"
            else:
                text += f"        /*{address:04x}*/    {line} ;\n"
                address += 16
        return sass.parse(text)[0]

    def test_a_branch_with_a_predicate_among_its_operands_goes_on(self):
        k = self.kernel("""
            .L_x_0:
            LDG.E R2, desc[UR4][R4.64]
            @!P1 BRA !P3, `(.L_x_0)
            BRA.U UP0, `(.L_x_1)
            STG.E desc[UR4][R4.64], R2
            .L_x_1:
            EXIT""")
        self.assertEqual((len(k.loops), len(k.instructions())), (1, 5))

    def test_code_behind_the_end_is_not_the_kernels(self):
        k = self.kernel("""
            @P0 EXIT
            STG.E desc[UR4][R4.64], R2
            EXIT
            .L_x_9:
            BRA `(.L_x_9)
            NOP""")
        self.assertEqual((len(k.loops), len(k.instructions())), (0, 3))

    def test_reconverging_threads_are_no_loop(self):
        k = self.kernel("""
            BSSY B0, `(.L_x_1)
            @P0 BRA `(.L_x_0)
            LDG.E.64 R2, desc[UR4][R4.64]
            .L_x_0:
            BSYNC B0
            .L_x_1:
            EXIT""")
        self.assertEqual((k.loops, len(k.instructions())), ([], 5))

    def test_a_jump_into_the_middle_of_a_loop_is_one_too(self):
        k = self.kernel("""
            @P0 BRA `(.L_x_1)
            .L_x_0:
            LDG.E R2, desc[UR4][R4.64]
            .L_x_1:
            IADD3 R4, R4, 0x4, RZ
            @P1 BRA `(.L_x_0)
            EXIT""")
        self.assertEqual([len(k.instructions(loop.blocks)) for loop in k.loops], [3])

    def test_asynchronous_copies_are_ahead_until_a_wait_covers_their_group(self):
        k = self.kernel("""
            LDGSTS.E.BYPASS.128 [R3], desc[UR4][R4.64]
            LDGDEPBAR
            LDGSTS.E.BYPASS.128 [R3], desc[UR4][R4.64+0x10]
            LDGDEPBAR
            DEPBAR.LE SB0, 0x1
            LDGSTS.E.BYPASS.128 [R3], desc[UR4][R4.64+0x20]
            LDGDEPBAR
            DEPBAR.LE SB0, 0x0
            EXIT""")
        self.assertEqual(kernel_cards.ahead(k.instructions(), 1), (2, 32))

    def test_a_vector_store_uses_all_of_its_registers(self):
        k = self.kernel("""
            LDG.E.64 R8, desc[UR4][R4.64]
            LDG.E.64 R10, desc[UR4][R4.64+0x8]
            STG.E.128 desc[UR4][R6.64], R8
            LDG.E.128 R12, desc[UR4][R4.64+0x10]
            EXIT""")
        self.assertEqual(kernel_cards.ahead(k.instructions(), 1), (2, 16))

    def test_an_address_has_two_registers(self):
        k = self.kernel("""
            LDG.E R5, desc[UR4][R2.64]
            LDG.E R6, desc[UR4][R4.64]
            EXIT""")
        self.assertEqual(kernel_cards.ahead(k.instructions(), 1), (1, 4))

    def test_loads_of_the_next_round_add_to_those_of_the_round_before(self):
        k = self.kernel("""
            .L_x_0:
            LDG.E R6, desc[UR4][R4.64]
            FADD R7, R6, R2
            LDG.E R2, desc[UR4][R4.64+0x4]
            @P0 BRA `(.L_x_0)
            EXIT""")
        self.assertEqual(kernel_cards.regions(k)[0].loads_ahead, 2)
        self.assertEqual(kernel_cards.region("kernel", k.instructions()).loads_ahead, 1)

    def test_of_nested_loops_the_innermost_that_moves_bytes_is_reported(self):
        k = self.kernel("""
            .L_x_0:
            LDG.E.128 R8, desc[UR4][R4.64]
            .L_x_1:
            LDG.E R2, desc[UR4][R4.64]
            .L_x_2:
            FADD R2, R2, R2
            @P2 BRA `(.L_x_2)
            @P1 BRA `(.L_x_1)
            @P0 BRA `(.L_x_0)
            EXIT""")
        found = kernel_cards.regions(k)
        self.assertEqual(
            (len(k.loops), [(r.kind, r.bytes, r.instructions) for r in found]), (3, [("loop", 4, 4)])
        )

    def test_a_tail_stands_beside_its_loop_and_moves_a_part_of_its_bytes(self):
        def kinds(second, between=""):
            k = self.kernel(f"""
                {between}
                .L_x_0:
                LDG.E.128 R8, desc[UR4][R4.64]
                STG.E.64 desc[UR4][R6.64], R8
                @P0 BRA `(.L_x_0)
                .L_x_1:
                {second}
                @P1 BRA `(.L_x_1)
                {"@P2 BRA `(.L_x_9)" if between else ""}
                EXIT""")
            return [r.kind for r in kernel_cards.regions(k)]

        load, half, store = (
            "LDG.E {}, desc[UR4][R4.64]\n",
            "LDG.E.U16 R2, desc[UR4][R4.64]\n",
            "STG.E desc[UR4][R6.64], R2",
        )
        two = load.format("R2") + load.format("R3")
        self.assertEqual(kinds(two + store), ["loop", "tail"])
        self.assertEqual(kinds(two + store, ".L_x_9:\nFADD R2, R2, R2"), ["loop", "tail"])
        self.assertEqual(kinds(two), ["loop", "loop"])  # stores nothing
        self.assertEqual(
            kinds(two + two + store.replace("STG.E", "STG.E.64")), ["loop", "loop"]
        )  # as many bytes
        self.assertEqual(kinds(half + store.replace("STG.E", "STG.E.U8")), ["loop", "tail"])
        self.assertEqual(kinds(load.format("R2") + store + "\n" + half), ["loop", "loop"])  # 10 bytes of 24
        inner = self.kernel("""
            .L_x_0:
            LDG.E.128 R8, desc[UR4][R4.64]
            STG.E.128 desc[UR4][R6.64], R8
            @P0 BRA `(.L_x_0)
            .L_x_2:
            FADD R3, R3, R3
            .L_x_1:
            LDG.E R2, desc[UR4][R4.64]
            STG.E desc[UR4][R6.64], R2
            @P1 BRA `(.L_x_1)
            FADD R2, R2, R2
            @P2 BRA `(.L_x_2)
            EXIT""")
        self.assertEqual(
            [r.kind for r in kernel_cards.regions(inner)], ["loop", "loop"]
        )  # in a loop of its own

    def test_words_of_caches_are_no_widths(self):
        k = self.kernel("""
            LDG.E.EF.LTC128B.64 R8, desc[UR4][R4.64]
            LDG.E.U8.CONSTANT R3, desc[UR4][R4.64]
            EXIT""")
        self.assertEqual([i.access[2] for i in k.instructions() if i.access], [8, 1])


class Mutants(unittest.TestCase):
    """A fault in the machine code changes the column that is there for it, and the check names kernel and column."""

    def differences(self, name, change, resources=None):
        def rows(found):
            return update_kernel_cards.rows(kernel_cards.table(found.values()))

        mutant = cards(changed_kernel(name, change) if change else None, resources=resources)
        return update_kernel_cards.differences(rows(cards()), rows(mutant))

    def test_accesses_of_two_bytes(self):
        found = self.differences("vectors", lambda s: s.replace("LDG.E.128.CONSTANT", "LDG.E.U16.CONSTANT"))
        self.assertIn("cards vectors: of 16 bytes: 100% on the page, now 89%", found)
        self.assertIn("cards vectors: bytes ahead: 64 on the page, now 8", found)
        self.assertIn("cards vectors: loads: 32 x1 128 x4 on the page, now U16 x4 32 x1", found)

    def test_a_slow_path_in_a_loop(self):
        call = "        /*fff0*/                   CALL.REL.NOINC `($__internal_0_$__cuda_sm20_sqrt_rn_f32_slowpath) ;\n"
        found = self.differences(
            "halves", lambda s: re.sub(r"(.*\bSTG\..*\n)", lambda m: call + m[1], s, count=1)
        )
        self.assertIn(
            "cards halves: calls in loops: 0 on the page, now 1 (__cuda_sm20_sqrt_rn_f32_slowpath)", found
        )

    def test_a_spill_as_ptxas_reports_it(self):
        resources = cubin.resources(PTXAS.read_text())
        name = next(n for n in resources if "halves" in n)
        resources[name].spill_stores = resources[name].spill_loads = resources[name].stack = 8
        found = self.differences("halves", None, resources)
        self.assertEqual(
            found,
            ["cards halves: spilled: 0 on the page, now 16", "cards halves: stack: 0 on the page, now 8"],
        )

    def test_a_spill_in_the_code(self):
        spill = "        /*fff0*/                   STL [R1], R8 ;\n"
        found = self.differences(
            "halves", lambda s: re.sub(r"(.*\bSTG\..*\n)", lambda m: spill + m[1], s, count=1)
        )
        self.assertIn("cards halves: spilled: 0 on the page, now 0 (0 LDL, 1 STL)", found)

    def test_a_load_that_is_used_at_once(self):
        use = "        /*fff0*/                   FADD R8, R8, 1 ;\n"

        def change(section):
            loads = re.findall(r".*LDG\.E\.128\.CONSTANT (R\d+),.*\n", section)
            return re.sub(
                rf"(.*LDG\.E\.128\.CONSTANT {loads[0]},.*\n)",
                lambda m: m[1] + use.replace("R8", loads[0]),
                section,
            )

        self.assertIn("cards vectors: loads ahead: 4 on the page, now 3", self.differences("vectors", change))

    def test_kernels_that_come_and_go(self):
        page = {("p", "a"): {}, ("p", "b"): {}}
        self.assertEqual(update_kernel_cards.differences(page, {("p", "b"): {}, ("p", "c"): {}}),
                         ["p a: no longer there", "p c: a new kernel"])  # fmt: skip


class Occupancy(unittest.TestCase):
    def resident(self, registers, threads, shared=0):
        resources = cubin.Resources(registers, 0, 0, 0, shared)
        return kernel_cards.resident_threads(resources, threads, 0, load_gpu("h200"))

    def test_registers_shared_memory_and_blocks_limit_it(self):
        self.assertEqual(self.resident(32, 256), 2048)
        self.assertEqual(self.resident(33, 256), 1536)  # 40 registers each, 48 warps
        self.assertEqual(self.resident(255, 256), 256)
        self.assertEqual(self.resident(16, 32), 1024)  # 32 blocks
        self.assertEqual(self.resident(16, 128, 100 * 1024), 256)
        self.assertEqual(self.resident(16, 128, 227 * 1024), 128)
        self.assertEqual(self.resident(16, 128, 228 * 1024), 0)  # cannot be launched

    def test_it_is_that_of_nvidias_calculator(self):
        nvcc, compiler = cubin.find_nvcc(), shutil.which(os.environ.get("CXX", "c++"))
        headers = pathlib.Path(nvcc).resolve().parents[1] / "include" if nvcc else pathlib.Path()
        if not compiler or not (headers / "cuda_occupancy.h").exists():
            self.skipTest("needs a host compiler and cuda_occupancy.h")
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder) / "occupancy"
            subprocess.run([compiler, "-O1", "-I", headers, HERE / "occupancy.cc", "-o", program], check=True)
            for name, architecture in (("h200", "9 0"), ("a100", "8 0")):
                gpu = load_gpu(name)
                limits = (str(gpu.shared_bytes), str(gpu.block_shared_bytes))
                printed = subprocess.run(
                    [program, *architecture.split(), *limits], stdout=subprocess.PIPE, text=True, check=True
                )
                lines = [[int(n) for n in line.split()] for line in printed.stdout.splitlines()]
                self.assertGreater(len(lines), 1000)
                for registers, threads, shared, resident in lines:
                    ours = kernel_cards.resident_threads(
                        cubin.Resources(registers, 0, 0, 0, shared), threads, 0, gpu
                    )
                    if ours != resident:
                        self.fail(
                            f"{name}, {registers} registers, {threads} threads, {shared} bytes: {ours}, not {resident}"
                        )


class Launches(unittest.TestCase):
    def test_threads_and_shared_memory_of_launches(self):
        found = {
            kernel: (v.threads, v.shared, v.threads_are_the_most)
            for (_, kernel), v in launches(LAUNCHES).items()
        }
        self.assertEqual(found, {"halves": (256, 0, False), "quotients": (512, 0, True), "staged": (256, 2048, False),
                                 "vectors": (512, None, False)})  # fmt: skip

    def test_cards_say_where_the_threads_come_from(self):
        c = cards()
        self.assertEqual(cell(c["halves"], "threads"), "256, 2048 per SM")
        self.assertEqual(cell(c["quotients"], "threads"), "512 (most), 2048 per SM")
        self.assertEqual(cell(c["single"], "threads"), "256 (assumed), 2048 per SM")
        self.assertEqual(cell(c["vectors"], "shared"), "0 + dynamic")

    def test_threads_that_only_the_run_knows_or_that_are_no_number(self):
        for threads in ("n", "9**9**9**9", "1/0", "0-5", "dim3(16, n)", "-"):
            with self.subTest(threads):
                text = f"namespace braid_cuda_p {{\nBRAID_LAUNCH(k, 1, {threads}, 0, s)"
                self.assertIsNone(launches(text)["braid_cuda_p", "k"].threads)

    def test_rows_of_a_known_length(self):
        text = "namespace braid_cuda_p {\nBRAID_LAUNCH(row<true>, 1, block_for(100), 0, s)"
        self.assertEqual(launches(text)["braid_cuda_p", "row<true>"].threads, 128)


class CommandLine(unittest.TestCase):
    """Errors have numbers, and no traceback."""

    def run_script(self, *words, **environment):
        done = subprocess.run([sys.executable, "-B", ROOT / "scripts" / "kernel_cards.py", *words], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment or None)  # fmt: skip
        self.assertNotIn("Traceback", done.stdout)
        return done.returncode, done.stdout

    def machine(self, text):
        self.enterContext(folder := tempfile.TemporaryDirectory())
        path = pathlib.Path(folder.name) / "machine.json"
        path.write_text(text)
        return str(path)

    def test_an_unknown_machine(self):
        self.assertEqual(self.run_script("--machine", "abacus", "x.cu")[0], 1)
        self.assertIn(
            "error BR0553: no machine is called 'abacus'", self.run_script("--machine", "abacus", "x.cu")[1]
        )

    def test_machines_without_a_gpu_or_with_a_wrong_one(self):
        self.assertIn("error BR0551", self.run_script("--machine", "cpu", "x.cu")[1])
        for text, code in (
            ("{", 550), ("[]", 551), ('{"gpu": {}}', 551), ('{"gpu": {"architecture": "sm_90"}}', 551),
            ('{"gpu": {"architecture": "sm_90", "multiprocessors": {"value": "many"}}}', 551),
            ('{"gpu": {"architecture": "sm_90", "multiprocessors": {"value": NaN}}}', 551), ("[" * 100000, 550),
        ):  # fmt: skip
            with self.subTest(text):
                self.assertIn(f"error BR0{code}", self.run_script("--machine", self.machine(text), "x.cu")[1])
        self.assertIn("error BR0001", self.run_script("--machine", "missing.json", "x.cu")[1])

    def test_a_missing_source(self):
        for path in ("missing.cu", str(ROOT / "docs")):
            self.assertIn("error BR0001", self.run_script(path)[1])

    def test_without_tools_it_is_skipped(self):
        for tool in ("find_nvcc", "find_nvdisasm"):
            printed = io.StringIO()
            with (
                self.subTest(tool),
                mock.patch.object(cubin, tool, lambda: None),
                contextlib.redirect_stderr(printed),
            ):
                self.assertEqual(kernel_cards.run(cubin.tools), kernel_cards.SKIPPED)
            self.assertIn("error BR0643: " + tool.removeprefix("find_"), printed.getvalue())

    def test_a_source_that_nvcc_refuses(self):
        nvcc = cubin.find_nvcc()
        if not nvcc:
            self.skipTest("needs nvcc")
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder) / "wrong.cu"
            source.write_text("__global__ void k() { nonsense; }")
            with self.assertRaisesRegex(UserError, 'error BR0644: nvcc failed:[^$]*"nonsense" is undefined'):
                cubin.compiled(source, "sm_90", nvcc, "no nvdisasm is asked")

    def test_pages_of_other_versions_are_not_compared(self):
        page = "nvcc 12.3, nvdisasm 13.2.86, sm_90 (machine h200)\n"
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            code = update_kernel_cards.checked(page, "nvcc 13.0", lambda: self.fail("made"))
        self.assertEqual((code, printed.getvalue()[:9]), (kernel_cards.SKIPPED, "skipped: "))

    def test_a_check_that_fails_says_how_to_write_the_page_anew(self):
        versions, table = (
            "nvcc 13.0, nvdisasm 13.2, sm_90 (machine h200)",
            kernel_cards.table(cards().values()),
        )
        self.assertEqual(update_kernel_cards.checked(versions + "\n\n" + table, versions, lambda: table), 0)
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            code = update_kernel_cards.checked(
                versions + "\n\n" + table, versions, lambda: table.replace("40.0", "39.0")
            )
        self.assertEqual(code, 1)
        self.assertIn(
            "cards halves: instructions per 16 bytes: 40.0 on the page, now 39.0", printed.getvalue()
        )
        self.assertIn(update_kernel_cards.COMMAND, printed.getvalue())

    def test_every_constant_of_a_description_that_states_one_has_an_origin(self):
        for name in ("a100", "h100", "h200"):
            gpu = load_gpu(name)
            self.assertLessEqual(set(gpu.origin.values()), {"data_sheet", "measured", "fitted"})
        with self.assertRaises(UserError):
            load_gpu("b200x")


def record():
    nvcc, nvdisasm = cubin.tools()
    with tempfile.TemporaryDirectory() as folder:
        binary = pathlib.Path(folder) / "kernels.cubin"
        log = subprocess.run([nvcc, "-std=c++20", "-O2", "-cubin", "-arch=sm_90", "-Xptxas", "-v", HERE / "kernels.cu", "-o", binary],
                             stderr=subprocess.STDOUT, stdout=subprocess.PIPE, text=True, check=True).stdout  # fmt: skip
        text = subprocess.run([nvdisasm, "-c", binary], stdout=subprocess.PIPE, text=True, check=True).stdout
    PTXAS.write_text("".join(line + "\n" for line in log.splitlines() if "Compile time" not in line))
    SASS.write_text(
        "".join(line.rstrip() + "\n" for line in text.splitlines() if " NOP;" not in line and line.strip())
    )


if __name__ == "__main__":
    if sys.argv[1:] == ["--record"]:
        record()
    else:
        unittest.main()
