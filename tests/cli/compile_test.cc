// braid compile, explain, opt and ops: what they write and print, and that errors leave nothing behind.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <ostream>

#include "tests/cli/braid_process.h"
#include "tests/cli/paths.h"
#include "tests/paths.h"

namespace braid::test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::Not;

constexpr const char* kTwiceGraph = R"(graph twice
dim n in [1, 4]
input %x: f32[n]
%a: f32[n] = pointwise {
  %0 = load %x
  %1 = add %0, %0
  store %1
}
%y: f32[n] = pointwise {
  %0 = load %a
  %1 = tanh %0
  store %1
}
output %y
)";

std::string dynamic_add() { return model("ops/add_dynamic/model.onnx"); }

TEST(Compile, SourceWithHeaderWeightsAndManifestIsWritten) {
  const Folder folder;
  const ProcessResult result = braid({"compile", model("ops/matmul_weight/model.onnx"), "--emit", "source",
                                      "--name", "product", "-o", folder / "out"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(folder.names(),
              ElementsAre("out", "out/manifest.json", "out/product.cc", "out/product.h", "out/weights.bin"));
  EXPECT_EQ(nlohmann::json::parse(read_text(folder / "out/manifest.json"))["name"], "product");
  for (const char* file : {"product.cc", "product.h", "weights.bin", "manifest.json"})
    EXPECT_THAT(result.out, HasSubstr(file));
}

// Exporters write what they like; JSON is UTF-8.
TEST(Compile, ANameThatIsNoUtf8IsWrittenWithAMark) {
  const Folder folder;
  const std::string text = folder.file("odd.braid", "graph odd\ninput %x: f32[4]\noutput %x as \"y\\xff\"\n");
  const ProcessResult result = braid({"compile", text, "--emit", "source", "-o", folder / "out"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const nlohmann::json manifest = nlohmann::json::parse(read_text(folder / "out/manifest.json"));
  EXPECT_EQ(manifest["outputs"][0]["name"], "y\xef\xbf\xbd");
}

TEST(Compile, EqualModelsGiveEqualBytes) {
  const Folder folder;
  for (const char* out : {"a", "b"}) {
    const ProcessResult result =
        braid({"compile", model("transformers/gpt2_static_prefill_tp2/model.rank{rank}.onnx"), "--ranks", "2",
               "--emit", "source", "-o", folder / out});
    ASSERT_EQ(result.exit_code, 0) << result.err;
  }
  int files = 0;
  for (const auto& entry : fs::directory_iterator(folder / "a")) {
    ++files;
    EXPECT_EQ(read_text(entry.path()), read_text(folder.path() / "b" / entry.path().filename()))
        << entry.path();
  }
  EXPECT_GE(files, 4);
}

TEST(Compile, IrAndScheduleAreTextThatReadsBack) {
  const Folder folder;
  for (const char* stage : {"ir", "schedule"}) {
    const ProcessResult result =
        braid({"compile", folder.file("twice.braid", kTwiceGraph), "--emit", stage, "-o", folder / stage});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const std::string text = read_text(folder / (std::string(stage) + "/twice.braid"));
    const ProcessResult again = braid({"opt", folder / (std::string(stage) + "/twice.braid")});
    EXPECT_EQ(again.out, text) << again.err;
  }
}

TEST(Compile, UnboundedDimensionIsRefusedWithTheOptionToGive) {
  const Folder folder;
  const ProcessResult result = braid({"compile", dynamic_add(), "-o", folder / "out"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("BR0310"));
  EXPECT_THAT(result.err, HasSubstr("--dim"));
  EXPECT_THAT(folder.names(), IsEmpty());
}

TEST(Compile, WrongNumberOfRanksIsRefused) {
  const Folder folder;
  const ProcessResult result = braid(
      {"compile", model("collectives/all_gather_axis_0/model.onnx"), "--ranks", "3", "-o", folder / "out"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("BR0401"));
  EXPECT_THAT(folder.names(), IsEmpty());
}

TEST(Compile, AMissingFileIsNamed) {
  const Folder folder;
  for (const char* name : {"absent.onnx", "absent.braid"}) {
    const ProcessResult result = braid({"compile", folder / name, "-o", folder / "out"});
    EXPECT_EQ(result.exit_code, 5);
    EXPECT_THAT(result.err, HasSubstr("BR0001"));
    EXPECT_THAT(result.err, HasSubstr(name));
  }
  EXPECT_THAT(folder.names(), IsEmpty());
}

TEST(Compile, AFolderThatCannotBeMadeIsAUserError) {
  const Folder folder;
  const ProcessResult result =
      braid({"compile", folder.file("twice.braid", kTwiceGraph), "-o", folder.file("file", "") + "/out"});
  EXPECT_EQ(result.exit_code, 5);
  EXPECT_THAT(result.err, HasSubstr("BR0010"));
}

TEST(Compile, ALibraryIsBuiltOncePerSourceFlagsAndProcessor) {
  const Folder folder;
  const std::string log = folder / "log";
  const std::string compiler =
      folder.file("c++", "#!/bin/sh\ncase \"$*\" in *\" -E \"*) ;; *) echo built >> " + log +
                             ";; esac\nexec c++ \"$@\"\n");
  fs::permissions(compiler, fs::perms::owner_all);
  const auto builds = [&](const std::string& out, const std::vector<std::string>& more,
                          const std::string& flags = "-O1") {
    std::vector<std::string> arguments = {"compile", folder.file("twice.braid", kTwiceGraph), "-o",
                                          folder / out};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const std::string before = fs::exists(log) ? read_text(log) : "";
    const ProcessResult result = braid(
        arguments, {}, {"CXX=" + compiler, "BRAID_CXXFLAGS=" + flags, "BRAID_CACHE_DIR=" + folder / "cache"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return (read_text(log).size() - before.size()) / std::string("built\n").size();
  };
  EXPECT_EQ(builds("a", {}), 1u);
  EXPECT_EQ(builds("a", {}), 0u);
  EXPECT_EQ(builds("b", {}), 0u);
  EXPECT_EQ(read_text(folder / "a/twice.so"), read_text(folder / "b/twice.so"));
  EXPECT_EQ(builds("b", {"--cpu", "x86-64-v2"}), 1u);
  EXPECT_EQ(builds("b", {"--cpu", "x86-64"}), 1u);
  EXPECT_EQ(builds("b", {"--name", "other"}), 1u);
  EXPECT_EQ(builds("b", {}, "-O0"), 1u);
  EXPECT_EQ(builds("a", {}), 0u);
  EXPECT_EQ(fs::status(folder / "a/twice.so").permissions(), fs::status(folder / "b/twice.so").permissions());
  // Files that the linker may find elsewhere are unknown, so such builds are not cached.
  for (const std::string flags : {"-O1 -Wl,-soname,x", "-O1 -lm", "-O1 -L."}) {
    EXPECT_EQ(builds("c", {}, flags), 1u) << flags;
    EXPECT_EQ(builds("c", {}, flags), 1u) << flags;
  }
}

TEST(Compile, AnUnknownProcessorIsTheCompilersError) {
  const Folder folder;
  const ProcessResult unknown = braid({"compile", folder.file("twice.braid", kTwiceGraph), "-o",
                                       folder / "out", "--cpu", "abacus; touch " + folder / "x"});
  EXPECT_EQ(unknown.exit_code, 4);
  EXPECT_THAT(unknown.err, HasSubstr("BR0603"));
  EXPECT_THAT(unknown.err, HasSubstr("abacus"));
  EXPECT_FALSE(fs::exists(folder / "x"));
  const ProcessResult cuda = braid({"compile", folder.file("twice.braid", kTwiceGraph), "-o", folder / "out",
                                    "--cpu", "x86-64", "--target", "cuda", "--emit", "source"});
  EXPECT_EQ(cuda.exit_code, 2);
  EXPECT_THAT(cuda.err, HasSubstr("BR0003"));
}

TEST(Compile, HostCompilersFailureIsShownAndLeavesNoLibrary) {
  const Folder folder;
  const ProcessResult result =
      braid({"compile", folder.file("twice.braid", kTwiceGraph), "-o", folder / "out"}, {}, {"CXX=false"});
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_THAT(result.err, HasSubstr("BR0603"));
  EXPECT_THAT(folder.names(), Not(Contains(HasSubstr(".so"))));
}

TEST(Compile, AMissingRuntimeLibraryIsAUserError) {
  const Folder folder;
  const ProcessResult result =
      braid({"compile", folder.file("twice.braid", kTwiceGraph), "-o", folder / "out"}, {},
            {"BRAID_RUNTIME_DIR=" + folder / "nowhere"});
  EXPECT_EQ(result.exit_code, 5);
  EXPECT_THAT(result.err, HasSubstr("BR0604"));
}

struct BadText {
  std::string name, error, text;
  friend void PrintTo(const BadText& text, std::ostream* out) { *out << text.name; }
};

class BadTexts : public ::testing::TestWithParam<BadText> {};

TEST_P(BadTexts, AreRefusedAndNothingIsWritten) {
  const Folder folder, out;
  const ProcessResult result =
      braid({"compile", folder.file("bad.braid", GetParam().text), "--emit", "source", "-o", out / "out"});
  EXPECT_EQ(result.exit_code, code_of(GetParam().error)) << result.err;
  EXPECT_THAT(result.err, HasSubstr(GetParam().error));
  EXPECT_THAT(out.names(), IsEmpty());
}

const BadText kBadTexts[] = {
    {"Syntax", "BR0501", "graph g input"},
    {"MemoryWithoutBound", "BR0545",
     "graph g dim n in [1, 2000000000000000000] input %x: f32[n] %a: f32[n] = pointwise { %0 = load %x store "
     "%0 } "
     "%y: f32[n] = extern \"f\" reads(%a) output %y"},
    {"MemoryBeyond64Bits", "BR0546",
     "graph g dim n in [1, 1000000000000000000] input %x: f32[n] %a: f32[n] = extern \"f\" reads(%x) "
     "%b: f32[n] = extern \"g\" reads(%a) %c: f32[n] = extern \"h\" reads(%a, %b) "
     "%d: f32[n] = extern \"k\" reads(%a, %b, %c) output %d"},
    {"ExternKernel", "BR0601", "graph g input %x: f32[2] %y: f32[2] = extern \"f\" reads(%x) output %y"},
    {"ConstantWithoutData", "BR0602",
     "graph g input %x: f32[2] constant %c: f32[2] = elided(0x1) %y: f32[2] = pointwise { %0 = load %x %1 = "
     "load %c "
     "%2 = add %0, %1 store %2 } output %y"},
};
INSTANTIATE_TEST_SUITE_P(Compile, BadTexts, ::testing::ValuesIn(kBadTexts),
                         [](const auto& info) { return info.param.name; });

struct BadArguments {
  std::string name, error;
  std::vector<std::string> arguments;
};

class BadOptions : public ::testing::TestWithParam<BadArguments> {};

TEST_P(BadOptions, AreRefused) {
  const Folder folder;
  std::vector<std::string> arguments = {"opt", folder.file("twice.braid", kTwiceGraph)};
  arguments.insert(arguments.end(), GetParam().arguments.begin(), GetParam().arguments.end());
  const ProcessResult result = braid(arguments);
  EXPECT_EQ(result.exit_code, code_of(result.err));
  EXPECT_THAT(result.err, HasSubstr(GetParam().error));
  EXPECT_EQ(result.out, "");
}

const BadArguments kBadOptions[] = {
    {"DimWithoutSize", "BR0003", {"--dim", "n"}},
    {"DimGivenTwice", "BR0003", {"--dim", "n=4", "--dim", "n=3"}},
    {"AliasWithoutInput", "BR0003", {"--alias", "y"}},
    {"DimOfText", "IR text has its own dimensions", {"--dim", "n=4"}},
    {"AliasOfText", "IR text has its own aliases", {"--alias", "y=x"}},
    {"MemoryCapThatIsNoSize", "--memory-cap", {"--memory-cap", "much"}},
    {"MemoryCapThatCannotBeMet", "BR0570", {"--passes", "plan_memory", "--memory-cap", "1"}},
    {"UnknownMachine", "BR0553", {"--machine", "abacus"}},
    {"NoCostFile", "BR0001", {"--costs", "no/such/costs.json"}},
    {"UnknownPass", "BR0540", {"--passes", "no_such_pass"}},
    {"UnknownOption", "BR0541", {"--passes", "plan_memory{colour=2}"}},
    {"PluginThatIsNoLibrary", "BR0543", {"--plugin", "no/such/library.so"}},
};
INSTANTIATE_TEST_SUITE_P(Opt, BadOptions, ::testing::ValuesIn(kBadOptions),
                         [](const auto& info) { return info.param.name; });

TEST(Compile, AScheduleWithoutAPlanIsRefused) {
  const Folder folder;
  for (const std::vector<std::string>& passes :
       {std::vector<std::string>{"--passes", "dead_code"}, {"--disable", "plan_memory"}}) {
    std::vector<std::string> arguments = {"compile", folder.file("twice.braid", kTwiceGraph), "-o",
                                          folder / "out"};
    arguments.insert(arguments.end(), passes.begin(), passes.end());
    const ProcessResult result = braid(arguments);
    EXPECT_EQ(result.exit_code, 3);
    EXPECT_THAT(result.err, HasSubstr("BR0547"));
  }
  EXPECT_THAT(folder.names(), ::testing::ElementsAre("twice.braid"));
}

TEST(CommandLine, WrongUsageIsExitCode2AndHelpIs0) {
  EXPECT_EQ(braid({}).exit_code, 2);
  EXPECT_EQ(braid({"no_such_command"}).exit_code, 2);
  EXPECT_EQ(braid({"compile"}).exit_code, 2);
  EXPECT_THAT(braid({"--version"}).out,
              MatchesRegex("braid 0\\.1\\.0\ncommit .+\nbuilt with .+\nCPU programs: (oneDNN [0-9.]+|without "
                           "oneDNN)\nONNX [0-9.]+\nNCCL [0-9.]+.*\n"));
  for (const char* command : {"compile", "run", "bench", "test", "verify", "explain", "opt", "ops"}) {
    const ProcessResult help = braid({command, "--help"});
    EXPECT_EQ(help.exit_code, 0);
    EXPECT_THAT(help.out, HasSubstr("Example: braid ")) << command;
  }
}

TEST(CommandLine, AnUnknownCommandIsNamedWithThoseThatExist) {
  const ProcessResult result = braid({"bogus"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(
      result.err,
      HasSubstr("BR0014: braid has no command 'bogus'\n  hint: its commands are inspect, compile, run,"));
  const ProcessResult inner = braid({"pipeline", "bogus"});
  EXPECT_EQ(inner.exit_code, 2);
  EXPECT_THAT(inner.err,
              HasSubstr("braid pipeline has no command 'bogus'\n  hint: its commands are generate,"));
  const ProcessResult none = braid({});
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(none.err, HasSubstr("braid needs a command"));
}

TEST(Opt, UnitsOfAMemoryCapArePowersOfTenOrOfTwoAsTheyAreWritten) {
  const Folder folder;
  std::string text = kTwiceGraph;
  text.replace(text.find("[1, 4]"), 6, "[1, 4096]");
  const std::string file = folder.file("twice.braid", text);
  for (const auto& [cap, bytes] :
       {std::pair("1kB", "1000"), std::pair("1KiB", "1024"), std::pair("2 B", "2"), std::pair("3", "3")}) {
    const ProcessResult result = braid({"opt", file, "--passes=plan_memory", "--memory-cap", cap});
    EXPECT_EQ(result.exit_code, 3);
    EXPECT_THAT(result.err, HasSubstr(std::string("memory cap of ") + bytes + " bytes")) << cap;
  }
}

TEST(Opt, TextWithoutPassesIsPrintedAsItIs) {
  const Folder folder;
  const ProcessResult first = braid({"opt", folder.file("twice.braid", kTwiceGraph)});
  ASSERT_EQ(first.exit_code, 0) << first.err;
  const ProcessResult second =
      braid({"opt", folder.file("again.braid", first.out), "-o", folder / "third.braid"});
  ASSERT_EQ(second.exit_code, 0) << second.err;
  EXPECT_EQ(second.out, "");
  EXPECT_EQ(read_text(folder / "third.braid"), first.out);
}

TEST(Opt, PassesChangeTheTextAndPrintAfterThem) {
  const Folder folder;
  const std::string file = folder.file("twice.braid", kTwiceGraph);
  const ProcessResult fused = braid({"opt", file, "--passes", "fuse_vertical,merge_loops", "--print-after",
                                     "fuse_vertical", "-o", folder / "out.braid"});
  ASSERT_EQ(fused.exit_code, 0) << fused.err;
  EXPECT_NE(read_text(folder / "out.braid"), braid({"opt", file}).out);
  EXPECT_THAT(fused.out, HasSubstr("fuse_vertical"));
}

TEST(Opt, WithoutAFileThereIsNothingToDo) {
  const ProcessResult result = braid({"opt", "--passes", "dead_code"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("BR0004"));
}

TEST(Opt, MachinesAreListed) {
  const ProcessResult list = braid({"opt", "--list-machines"});
  ASSERT_EQ(list.exit_code, 0) << list.err;
  EXPECT_THAT(list.out, HasSubstr("h200     8 per node, 989 TFLOPS bf16, 4800 GB/s memory"));
  EXPECT_THAT(list.out, HasSubstr("cpu "));
}

TEST(Opt, PassesOfPluginsAreListedAndRun) {
  const Folder folder;
  EXPECT_THAT(braid({"opt", "--list-passes"}).out, Not(HasSubstr("charge_callee")));
  const ProcessResult list = braid({"opt", "--list-passes", "--plugin", paths::example_plugin()});
  ASSERT_EQ(list.exit_code, 0) << list.err;
  EXPECT_THAT(list.out, HasSubstr("charge_callee"));
  EXPECT_THAT(list.out, HasSubstr("plan_memory"));
  const ProcessResult run = braid({"opt", folder.file("twice.braid", kTwiceGraph), "--plugin",
                                   paths::example_plugin(), "--passes", "charge_callee"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("graph twice"));
}

TEST(Ops, JsonListsEveryOperatorOfTheTable) {
  const nlohmann::json ops = nlohmann::json::parse(braid({"ops", "--json"}).out)["operators"];
  const std::string table = braid({"ops"}).out;
  EXPECT_EQ(static_cast<std::ptrdiff_t>(ops.size()), std::count(table.begin(), table.end(), '\n'));
  bool found = false;
  for (const nlohmann::json& op : ops) {
    found |= op["name"] == "MatMul" && op["domain"] == "ai.onnx";
    EXPECT_LE(op["first_version"].get<int>(), op["last_version"].get<int>());
    EXPECT_FALSE(op["types"].empty()) << op;
  }
  EXPECT_TRUE(found);
}

TEST(Explain, ShowsInterfaceCollectivesAndPlannedBytes) {
  const ProcessResult result =
      braid({"explain", model("collectives/all_reduce_dynamic/model.onnx"), "--ranks", "2", "--dim",
             "batch=1..4", "--dim", "sequence=1..16", "--kernels", "--timing"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  for (const char* text : {"2 ranks", "dim     batch in [1, 4]", "input   x: f32[batch, sequence, 6]",
                           "all_reduce     group world", "1536 B at most", "communication segment",
                           "planned bytes", "Kernels in order", "plan_memory"}) {
    EXPECT_THAT(result.out, HasSubstr(text));
  }
}

// The corpus of broken models through the command line.
struct BadModel {
  std::string name;
  nlohmann::json expect;
  friend void PrintTo(const BadModel& model, std::ostream* out) { *out << model.name; }
};

TEST(BadModelCorpus, IsRefusedAndLeavesNothing) {
  const std::string root = paths::source("tests/corpus/bad_models");
  const nlohmann::json all = nlohmann::json::parse(read_text(root + "/expect.json"));
  EXPECT_GT(all.size(), 50u);
  for (const auto& [name, expect] : all.items()) {
    SCOPED_TRACE(name);
    const Folder folder;
    std::vector<std::string> arguments = {"compile", root + "/" + expect["model"].get<std::string>(),
                                          "-o",      folder / "out",
                                          "--ranks", std::to_string(expect["ranks"].get<int>())};
    for (const auto& [dim, bounds] : expect["dims"].items()) {
      arguments.insert(arguments.end(), {"--dim", dim + "=" + std::to_string(bounds[0].get<std::int64_t>()) +
                                                      ".." + std::to_string(bounds[1].get<std::int64_t>())});
    }
    const ProcessResult result = braid(arguments);
    EXPECT_EQ(result.exit_code, code_of(result.err)) << result.err;
    for (const std::string text : expect["mentions"]) EXPECT_THAT(result.err, HasSubstr(text));
    EXPECT_THAT(folder.names(), IsEmpty());
  }
}

TEST(Opt, TextThatBreaksARuleOfTheIrIsTheUsersError) {
  const Folder folder;
  const ProcessResult result = braid({"opt", folder.file("late.braid", R"(graph main
input %x: f32[4]
%y: f32[4] = pointwise { %0 = load %x[i0 + 1] store %0 }
output %y
)")});
  EXPECT_EQ(result.exit_code, 3) << result.err;
  EXPECT_THAT(result.err, HasSubstr("BR0513"));
  EXPECT_THAT(result.err, HasSubstr("late.braid"));
}

// Parts that the manifest could not describe truthfully to callers.
TEST(Compile, PartsThatCannotBeAreTheUsersError) {
  const Folder folder;
  const auto compiled = [&](const std::string& mesh, const std::string& input, const std::string& output) {
    const std::string file = folder.file("part.braid", fmt::format(R"(graph main
ranks 4
{}
dim n in [1, 8]
input %x: f32[n, 6] {}
%y: f32[n, 6] output = pointwise {{ %0 = load %x[i0*6 + i1] store %0 }}
output %y {}
)",
                                                                   mesh, input, output));
    return braid({"compile", file, "-o", folder / "out"});
  };
  const std::string mesh = "mesh [dp=2, tp=2]";
  EXPECT_EQ(
      compiled(mesh, "part \"S(1) on tp\" of [n, 12]", "part \"S(1) on dp, S(1) on tp\" of [n, 23]").err, "");
  EXPECT_EQ(compiled("", "part \"S(1)\" of [n, 24]", "").err, "");
  struct Case {
    std::string mesh, part;
  };
  for (const auto& [on, part] :
       {Case{mesh, "\"S(1) on ep\" of [n, 12]"}, Case{mesh, "\"S(1)\" of [n, 12]"},
        Case{mesh, "\"half\" of [n, 6]"}, Case{mesh, "\"S(1) on tp\" of [n, 13]"},
        Case{mesh, "\"S(1) on tp\" of [n, 10]"}, Case{mesh, "\"S(0) on tp\" of [n, 6]"},
        Case{mesh, "\"S(2) on tp\" of [n, 6]"}, Case{mesh, "\"S(1:6+5) on tp\" of [n, 11]"},
        Case{mesh, "\"S(1) on tp\" of [n + 1, 12]"}, Case{mesh, "\"S(1) on tp\" of [9, 12]"},
        Case{"", "\"S(1) on tp\" of [n, 24]"}, Case{"", "\"S(1)\" of [n, 12]"}}) {
    for (const bool input : {true, false}) {
      const ProcessResult result = compiled(on, input ? "part " + part : "", input ? "" : "part " + part);
      EXPECT_EQ(result.exit_code, 3) << part << result.err;
      EXPECT_THAT(result.err, HasSubstr("BR0513"));
      EXPECT_THAT(result.err, HasSubstr(input ? "the input 'x' is [n, 6]" : "the output 'y' is [n, 6]"));
    }
  }
}

TEST(Compile, CollectiveInPlaceOnAConstantIsTheUsersError) {
  for (const char* target : {"cpu", "cuda"}) {
    const Folder folder;
    const ProcessResult result = braid(
        {"compile", "--target", target, "-o", folder / "out", folder.file("constant.braid", R"(graph main
ranks 2
group @g = [0, 1]
constant %a: f32[4] = [1.0, 2.0, 3.0, 4.0]
%a.1 mutates %a = all_reduce sum @g (%a) as ar
%a.2 mutates %a.1 = wait ar
output %a.2
)")});
    EXPECT_EQ(result.exit_code, 3) << result.err;
    EXPECT_THAT(result.err, HasSubstr("BR0513"));
    EXPECT_THAT(result.err, HasSubstr("writes the constant 'a'"));
  }
}

TEST(Compile, TheSameModelGivesTheSameFilesByteForByte) {
  const Folder first, second;
  for (const Folder* folder : {&first, &second}) {
    const ProcessResult result =
        braid({"compile", model("collectives/all_reduce_dynamic/model.onnx"), "--emit", "source", "--ranks",
               "2", "--dim", "batch=1..4", "--dim", "sequence=1..16", "-o", (*folder) / "program"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
  }
  const std::vector<std::string> names = first.names();
  EXPECT_EQ(names, second.names());
  EXPECT_GE(names.size(), 3u);
  for (const std::string& name : names) {
    if (fs::is_regular_file(first / name)) {
      EXPECT_EQ(read_text(first / name), read_text(second / name)) << name;
    }
  }
}

}  // namespace
}  // namespace braid::test
