// compile --emit onnx: files that Braid and ONNX read.
#include <gmock/gmock.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/cli/braid_process.h"
#include "tests/paths.h"

namespace braid::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
const std::string kModel = "transformers/gpt2_static_prefill";

// Emits the model on two ranks as m.rank{rank}.onnx into `out` and returns that pattern.
std::string emit(const std::string& out, const Arguments& more = {}) {
  Arguments arguments = {
      "compile", model(kModel) + "/model.onnx", "-o", out, "--name", "m", "--tp", "2", "--emit", "onnx"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const ProcessResult result = braid(arguments);
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("m.rank0.onnx\n"), HasSubstr("m.rank1.onnx\n")));
  return out + "/m.rank{rank}.onnx";
}

// name: bytes
std::map<std::string, std::string> contents(const fs::path& folder) {
  std::map<std::string, std::string> all;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) all[fs::relative(entry.path(), folder).string()] = read_text(entry.path());
  }
  return all;
}

TEST(EmitOnnx, FilesOfRanksGiveTheSameResults) {
  const Folder folder;
  const std::string files = emit(folder / "out");
  const auto run = [&](const std::string& file, const Arguments& more, const std::string& to) {
    Arguments arguments = {"run", file, "--random", "1", "-o", folder / to};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const ProcessResult result = braid(arguments);
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
    return contents(folder.path() / to);
  };
  const auto direct = run(model(kModel) + "/model.onnx", {"--tp", "2"}, "direct");
  EXPECT_FALSE(direct.empty());
  EXPECT_EQ(run(files, {"--ranks", "2"}, "again"), direct);
}

// Emitting from emitted files reproduces them, even into their own folder.
TEST(EmitOnnx, FilesAreWrittenOverThemselves) {
  const Folder folder;
  const std::string files = emit(folder / "out");
  const auto before = contents(folder.path() / "out");
  EXPECT_THAT(before.size(), testing::Ge(2U));
  const ProcessResult result =
      braid({"compile", files, "--ranks", "2", "-o", folder / "out", "--name", "m", "--emit", "onnx"});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_EQ(contents(folder.path() / "out"), before);
}

TEST(EmitOnnx, WholeModelsAreOneFile) {
  const Folder folder;
  const ProcessResult result = braid({"compile", model("ops/gemm_all_attributes") + "/model.onnx", "-o",
                                      folder / "out", "--name", "m", "--emit", "onnx"});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_TRUE(fs::exists(folder / "out/m.rank0.onnx"));
  EXPECT_FALSE(fs::exists(folder / "out/m.rank1.onnx"));
}

TEST(EmitOnnx, WhatAFormLacksIsNamed) {
  const Folder folder;
  const ProcessResult missing = braid({"compile", model(kModel) + "/model.onnx", "-o", folder / "out",
                                       "--collectives", "com.microsoft", "--emit", "source"});
  EXPECT_EQ(missing.exit_code, 2);
  EXPECT_THAT(missing.err, AllOf(HasSubstr("BR0003"), HasSubstr("write --emit onnx")));
  const ProcessResult text =
      braid({"compile", folder.file("a.braid", ""), "-o", folder / "out", "--emit", "onnx"});
  EXPECT_NE(text.exit_code, 0);
  const std::string plan =
      folder.file("p.plan", "plan 1\nranks 5\n\"x\" -> \"y\" = S(2)\n\"y\" = P(max)\n\"y\" -> output = R\n");
  const ProcessResult lacks = braid({"compile", model("ops/reduce_max") + "/model.onnx", "--plan", plan, "-o",
                                     folder / "out", "--collectives", "com.microsoft", "--emit", "onnx"});
  EXPECT_EQ(lacks.exit_code, 3) << lacks.err;
  EXPECT_THAT(lacks.err,
              AllOf(HasSubstr("BR0490"), HasSubstr("com.microsoft has no form for a reduction by max")));
}

// The plan of a product: rows on two ranks.
std::string rows(const Folder& folder) {
  return folder.file("rows.plan",
                     "plan 1\nranks 2\n\"a\" -> \"y\" = S(0)\n\"y\" = S(0)\n\"y\" -> output = R\n");
}

// ONNX's own checker. It knows no DistCollective, so the test tells it.
TEST(EmitOnnx, OnnxAcceptsTheFiles) {
  const char* moved = std::getenv("BRAID_VENV");
  const std::string python = std::string(moved != nullptr ? moved : paths::source(".venv")) + "/bin/python";
  if (!fs::exists(python)) GTEST_SKIP() << "no Python environment (scripts/python_env.sh)";
  const Folder folder;
  for (const char* form : {"ai.braid", "com.microsoft", "DistCollective"}) {
    const std::string out = folder / form;
    const ProcessResult wrote =
        braid({"compile", model("ops/matmul_integer_valued") + "/model.onnx", "--plan", rows(folder), "-o",
               out, "--name", "m", "--emit", "onnx", "--collectives", form});
    EXPECT_EQ(wrote.exit_code, 0) << wrote.out << wrote.err;
    const std::string script = folder.file(
        "check.py",
        "import sys, onnx\n"
        "from onnx import defs\n"
        "S = defs.OpSchema\n"
        "T = onnx.AttributeProto\n"
        "types = ['tensor(float)', 'tensor(float16)', 'tensor(int64)']\n"
        "if not defs.has('DistCollective'):\n"
        "  attributes = [S.Attribute(n, t, '', required=False) for n, t in (('collective_operation', "
        "S.AttrType.STRING),\n"
        "    ('reduce_op', S.AttrType.STRING), ('root', S.AttrType.INT), ('nb_rank', S.AttrType.INT),\n"
        "    ('group_size', S.AttrType.INT), ('groups', S.AttrType.INTS))]\n"
        "  defs.register_schema(S('DistCollective', '', 1, inputs=[S.FormalParameter('x', 'T')],\n"
        "    outputs=[S.FormalParameter('y', 'T')], type_constraints=[('T', types, '')], "
        "attributes=attributes))\n"
        "for path in sys.argv[1:]:\n"
        "  onnx.checker.check_model(path, full_check=False)\n"
        "  model = onnx.load(path)\n"
        "  ops = {(n.domain, n.op_type) for n in model.graph.node}\n"
        "  print(sorted(o for d, o in ops if o.startswith(('All', 'Dist', 'Reduce'))))\n");
    const std::string command =
        python + " " + script + " " + out + "/m.rank0.onnx " + out + "/m.rank1.onnx > " + out + "/said 2>&1";
    EXPECT_EQ(std::system(command.c_str()), 0) << read_text(out + "/said");
    EXPECT_THAT(read_text(out + "/said"),
                HasSubstr(form == std::string("DistCollective") ? "DistCollective" : "AllGather"));
  }
}

TEST(Annotate, APlanInTheModelIsObeyed) {
  const Folder folder;
  const std::string file = model("ops/matmul_integer_valued") + "/model.onnx";
  const ProcessResult wrote = braid({"compile", file, "--plan", rows(folder), "-o", folder / "out", "--name",
                                     "m", "--emit", "plan", "--annotate"});
  ASSERT_EQ(wrote.exit_code, 0) << wrote.out << wrote.err;
  for (const Arguments& how :
       {Arguments{"--configuration", "braid"}, Arguments{"--tp", "2"}, Arguments{"--devices", "2"}}) {
    Arguments arguments = {"compile", folder / "out/m.onnx", "-o", folder / "again", "--name", "m", "--emit",
                           "plan"};
    arguments.insert(arguments.end(), how.begin(), how.end());
    const ProcessResult obeyed = braid(arguments);
    EXPECT_EQ(obeyed.exit_code, 0) << obeyed.out << obeyed.err;
    EXPECT_THAT(read_text(folder / "again/m.plan"), AllOf(HasSubstr("ranks 2"), HasSubstr("\"y\" = S(0)")));
  }
  const ProcessResult verified = braid({"verify", folder / "out/m.onnx", "--configuration", "braid"});
  EXPECT_EQ(verified.exit_code, 0) << verified.out << verified.err;
  EXPECT_THAT(verified.err, Not(HasSubstr("is annotated")));
  const ProcessResult whole = braid({"check", folder / "out/m.onnx"});
  EXPECT_EQ(whole.exit_code, 0) << whole.out << whole.err;
  EXPECT_THAT(
      whole.err,
      HasSubstr("note: the model is annotated for several devices (configuration 'braid' of 2), but is "
                "not split: --configuration NAME splits it so"));
}

TEST(Annotate, APlanOnAMeshIsObeyedOnThatMesh) {
  const Folder folder;
  const std::string file = model("ops/matmul_integer_valued") + "/model.onnx";
  const std::string plan = folder.file(
      "mesh.plan",
      "plan 1\nmesh [a=2, b=2]\n\"y\" = S(0) on a, S(0) on b\n\"a\" -> \"y\" = S(0) on a, S(0) on b\n");
  const ProcessResult wrote = braid(
      {"compile", file, "--plan", plan, "-o", folder / "out", "--name", "m", "--emit", "plan", "--annotate"});
  ASSERT_EQ(wrote.exit_code, 0) << wrote.out << wrote.err;
  for (const Arguments& how :
       {Arguments{"--configuration", "braid"}, Arguments{"--tp", "4"}, Arguments{"--mesh", "dp=2,tp=2"}}) {
    Arguments arguments = {"compile", folder / "out/m.onnx", "-o", folder / "again", "--name", "m", "--emit",
                           "plan"};
    arguments.insert(arguments.end(), how.begin(), how.end());
    const ProcessResult obeyed = braid(arguments);
    EXPECT_EQ(obeyed.exit_code, 0) << obeyed.out << obeyed.err;
    const bool other = how[0] == "--mesh";
    EXPECT_THAT(read_text(folder / "again/m.plan"),
                AllOf(HasSubstr(other ? "mesh [dp=2, tp=2]" : "mesh [a=2, b=2]"),
                      HasSubstr(other ? "\"y\" = S(0) on dp, S(0) on tp" : "\"y\" = S(0) on a, S(0) on b")));
  }
  const ProcessResult refused = braid({"check", folder / "out/m.onnx", "--mesh", "dp=2,tp=4"});
  EXPECT_THAT(refused.err,
              AllOf(HasSubstr("BR0484"), HasSubstr("'braid' of the model is for 4 devices, not for 8")));
}

TEST(Annotate, ContradictionsAreNamed) {
  const Folder folder;
  const std::string file = model("ops/matmul_integer_valued") + "/model.onnx", plan = rows(folder);
  const auto refused = [&](const Arguments& arguments, const char* number, const char* text) {
    const ProcessResult result = braid(arguments);
    EXPECT_NE(result.exit_code, 0);
    EXPECT_THAT(result.err, AllOf(HasSubstr(number), HasSubstr(text)));
  };
  refused({"compile", file, "--plan", plan, "-o", folder / "out", "--annotate"}, "BR0003",
          "write --emit plan");
  refused({"check", file, "--configuration", "c"}, "BR0491", "no configuration 'c'");
  refused({"check", file, "--configuration", "c", "--plan", plan}, "BR0484", "--configuration and --plan");
  ASSERT_EQ(braid({"compile", file, "--plan", plan, "-o", folder / "out", "--name", "m", "--emit", "plan",
                   "--annotate"})
                .exit_code,
            0);
  refused({"check", folder / "out/m.onnx", "--tp", "4"}, "BR0484",
          "'braid' of the model is for 2 devices, not for 4");
  const std::string parts =
      folder.file("parts.plan", "plan 1\nranks 2\n\"a\" = S(0)\n\"y\" = S(0)\n\"y\" -> output = R\n");
  refused({"compile", file, "--plan", parts, "-o", folder / "out", "--emit", "plan", "--annotate"}, "BR0492",
          "the input 'a' is S(0)");
}

}  // namespace
}  // namespace braid::test
