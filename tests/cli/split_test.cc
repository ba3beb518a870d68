// A plain model on several ranks: --devices, --tp and --plan, with the same meaning in all commands.
#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/cli/braid_process.h"

namespace braid::test {
namespace {

using ::testing::HasSubstr;

const std::string kSplitCase = "ops/gemm_all_attributes";

TEST(Split, PlainCasesPassOnSeveralRanks) {
  for (const char* target : {"cpu", "interpreter"}) {
    const ProcessResult result =
        braid({"test", model("transformers/gpt2_static_prefill"), model("transformers/llama_prefill"), "--tp",
               "2", "--target", target});
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
    EXPECT_THAT(result.out, HasSubstr("2 passed, 0 failed, 0 refused\n"));
  }
}

TEST(Split, CasesOfSeveralRanksAreNotSplit) {
  const ProcessResult result = braid({"test", model("collectives/row_split_linear"), "--tp", "2"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out, HasSubstr("BR0401"));
}

TEST(Split, OneLineTellsHowManyDevicesAreUsed) {
  const Folder folder;
  const std::string file = model(kSplitCase) + "/model.onnx";
  const ProcessResult result = braid(
      {"compile", file, "-o", folder / "out", "--devices", "2", "--machine", "h100", "--emit", "source"});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("1 device: "));
  EXPECT_THAT(result.out, HasSubstr("of 2 allowed, more are not faster"));
}

// Sizes of 5, 7 and 3.
TEST(Split, RanksThatDivideNothingAreRefused) {
  const Folder folder;
  const ProcessResult result = braid({"compile", model("ops/matmul_2d") + "/model.onnx", "-o", folder / "out",
                                      "--tp", "2", "--emit", "plan"});
  EXPECT_EQ(result.exit_code, 3) << result.out << result.err;
  EXPECT_THAT(result.err, AllOf(HasSubstr("BR0487"), HasSubstr("would do: 3, 5, 7;")));
}

TEST(Split, APlanIsWrittenAndReadByAllCommands) {
  const Folder folder;
  const std::string file = model("transformers/gpt2_static_prefill") + "/model.onnx";
  const ProcessResult wrote =
      braid({"compile", file, "-o", folder / "out", "--name", "m", "--tp", "2", "--emit", "plan"});
  ASSERT_EQ(wrote.exit_code, 0) << wrote.out << wrote.err;
  EXPECT_THAT(wrote.out, HasSubstr("2 devices: "));
  const std::string plan = folder / "out/m.plan";
  std::ifstream stream(plan);
  const std::string text(std::istreambuf_iterator<char>(stream), {});
  EXPECT_THAT(text, HasSubstr("ranks 2"));
  EXPECT_THAT(text, HasSubstr("S("));
  for (const char* command : {"verify", "check", "run", "explain"}) {
    const ProcessResult result = braid({command, file, "--plan", plan});
    EXPECT_EQ(result.exit_code, 0) << command << result.out << result.err;
  }
  const ProcessResult verified = braid({"verify", file, "--plan", plan});
  EXPECT_THAT(verified.out, HasSubstr("equal  rank 1"));
  const ProcessResult explained = braid({"explain", file, "--tp", "2"});
  EXPECT_THAT(explained.out, HasSubstr("Splits that were tried"));
  EXPECT_THAT(explained.out, HasSubstr("Conversions"));
  EXPECT_THAT(explained.out, HasSubstr("gap"));
  EXPECT_THAT(explained.out, HasSubstr("2 ranks"));
}

// With --split-caches a step takes and returns only the heads of its rank. verify and test cut the plain
// tensors to match.
TEST(Split, CachesMayStayInParts) {
  const Folder folder;
  const std::string file = model("transformers/gpt2_decode") + "/model.onnx";
  const Arguments dims = {"--dim", "batch=2", "--dim", "past_sequence=1..8"};
  const auto with = [&](Arguments arguments) {
    arguments.insert(arguments.end(), dims.begin(), dims.end());
    return braid(arguments);
  };
  const auto inputs = [&](const Arguments& more) {
    Arguments arguments = {"compile", file,     "-o",     folder / "out", "--tp",
                           "2",       "--emit", "source", "--name",       "m"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const ProcessResult result = with(arguments);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    std::ifstream manifest(folder / "out/manifest.json");
    return nlohmann::json::parse(manifest)["inputs"];
  };
  const auto heads = [](const nlohmann::json& inputs) {
    for (const nlohmann::json& input : inputs) {
      if (input["shape"].size() == 4) return input["shape"][1].get<int>();
    }
    return 0;
  };
  const int whole = heads(inputs({})), part = heads(inputs({"--split-caches"}));
  EXPECT_GT(part, 0);
  EXPECT_EQ(whole, 2 * part);
  EXPECT_EQ(with({"run", file, "--tp", "2", "--split-caches"}).exit_code, 0);
  // Every rank receives its part of the plain program's inputs, and must return its part of that program's
  // outputs.
  const ProcessResult verified = with({"verify", file, "--tp", "2", "--split-caches"});
  EXPECT_EQ(verified.exit_code, 0) << verified.out << verified.err;
  const ProcessResult tested =
      braid({"test", model("transformers/gpt2_decode"), "--tp", "2", "--split-caches"});
  EXPECT_EQ(tested.exit_code, 0) << tested.out << tested.err;
  EXPECT_EQ(with({"verify", file, "--tp", "2"}).exit_code, 0);
}

// A compiled program describes the parts of its ranks itself. Plain tensors are given to it, drawn for it and
// compared with it.
TEST(Split, ProgramsInPartsTakePlainTensors) {
  const Folder folder;
  const std::string name = "transformers/gpt2_decode", file = model(name) + "/model.onnx";
  const std::string plain = folder / "plain", split = folder / "split";
  const auto compile = [&](Arguments arguments) {
    arguments.insert(arguments.begin(),
                     {"compile", file, "--dim", "batch=1..4", "--dim", "past_sequence=0..16"});
    const ProcessResult result = braid(arguments);
    ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  };
  compile({"-o", plain});
  compile({"-o", split, "--tp", "2", "--split-caches"});
  const ProcessResult said = braid({"inspect", split});
  EXPECT_THAT(said.out, HasSubstr("the part S(1) of [batch, 4, past_sequence, 8]"));

  const ProcessResult tested = braid({"test", model(name), "--program", split});
  EXPECT_EQ(tested.exit_code, 0) << tested.out << tested.err;
  EXPECT_THAT(tested.out, HasSubstr("1 passed"));

  // Written as models of ranks and compiled again, it says the same.
  compile({"-o", folder / "ranks", "--tp", "2", "--split-caches", "--emit", "onnx", "--name", "m"});
  const ProcessResult again =
      braid({"compile", folder / "ranks/m.rank{rank}.onnx", "--ranks", "2", "--dim", "batch=1..4", "--dim",
             "past_sequence=0..16", "-o", folder / "again", "--emit", "source"});
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_THAT(braid({"inspect", folder / "again"}).out,
              HasSubstr("the part S(1) of [batch, 4, past_sequence, 8]"));

  // The same random inputs as the plain program; its results are the reference.
  const Arguments sizes = {"--dim", "batch=2", "--dim", "past_sequence=5"};
  const auto run = [&](Arguments arguments, int exit_code = 0) {
    arguments.insert(arguments.end(), sizes.begin(), sizes.end());
    const ProcessResult result = braid(arguments);
    EXPECT_EQ(result.exit_code, exit_code) << result.out << result.err;
    return result;
  };
  run({"run", plain, "--random", "7", "-o", folder / "results"});
  run({"run", plain, "--random", "7", "-o", folder / "results.npz"});
  run({"verify", split, "--random", "7", "--reference", folder / "results"});
  run({"verify", split, "--random", "7", "--reference", folder / "results.npz"});
  run({"verify", split, "--random", "8", "--reference", folder / "results"}, 1);
  // Its own results are parts.
  run({"run", split, "--random", "7", "-o", folder / "parts"});
  run({"verify", split, "--random", "7", "--reference", folder / "parts"});
}

// A file of a whole cache is split, and files of parts are taken as they are; the plain model cannot be
// compared with these.
TEST(Split, CachesAreGivenWholeOrInParts) {
  const Folder folder;
  const std::string file = model("transformers/gpt2_decode") + "/model.onnx";
  // The present caches of one run are the past ones of the next.
  const auto with = [&](Arguments arguments, int exit_code = 0) {
    arguments.insert(arguments.end(), {"--dim", "batch=2", "--random", "7"});
    const ProcessResult result = braid(arguments);
    EXPECT_EQ(result.exit_code, exit_code) << result.out << result.err;
    return result;
  };
  const Arguments split = {"--tp", "2", "--split-caches"};
  const auto join = [](Arguments a, const Arguments& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  };
  const Arguments first = {"--dim", "past_sequence=3"}, next = {"--dim", "past_sequence=4"};
  with(join({"run", file, "-o", folder / "whole"}, first));
  with(join(join({"run", file, "-o", folder / "parts"}, first), split));
  const Arguments whole = {"--input", "past_key_0=" + (folder / "whole/present_key_0.npy")};
  const Arguments parts = {"--input", "past_key_0@0=" + (folder / "parts/rank0/present_key_0.npy"), "--input",
                           "past_key_0@1=" + (folder / "parts/rank1/present_key_0.npy")};
  with(join(join({"run", file, "-o", folder / "expected"}, next), whole));
  for (const Arguments& given : {whole, parts}) {
    with(join(join(join({"verify", file, "--reference", folder / "expected"}, next), split), given));
  }
  with(join(join(join({"verify", file}, next), split), whole));
  EXPECT_THAT(with(join(join(join({"run", file}, next), whole), whole), 2).err,
              AllOf(HasSubstr("BR0003"), HasSubstr("'past_key_0' is given twice")));
  const ProcessResult refused = with(join(join(join({"verify", file}, next), split), parts), 2);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("BR0003"), HasSubstr("'past_key_0' is given rank by rank"),
                                 HasSubstr("S(1) of [2, 4, 4, 8]")));
  // The same whole one for every rank is one for all; another one for some rank is not.
  const auto to_rank = [&](const std::string& rank, const std::string& output) {
    return Arguments{"--input", "past_key_0" + rank + "=" + (folder / ("whole/" + output + ".npy"))};
  };
  const Arguments first_rank = to_rank("@0", "present_key_0"), second_rank = to_rank("@1", "present_key_0");
  for (const Arguments& given : {join(first_rank, second_rank), join(whole, second_rank)})
    with(join(join(join({"verify", file}, next), split), given));
  for (const Arguments& given : {join(first_rank, to_rank("@1", "present_value_0")),
                                 join(whole, to_rank("@1", "present_value_0")), first_rank}) {
    EXPECT_THAT(with(join(join(join({"verify", file}, next), split), given), 2).err,
                AllOf(HasSubstr("BR0003"), HasSubstr("'past_key_0' is given rank by rank"),
                      HasSubstr("or the same one for every rank")));
  }
}

// Limits between the sizes of programs: the plans of another limit may need fewer buffers, several readers of
// one weight are rows of memory, and a pipeline's stages have the limit that was given.
TEST(Split, LimitsOfMemoryThatBind) {
  const Folder folder;
  const std::string prefill = model("transformers/gpt2_static_prefill") + "/model.onnx";
  const std::string decode = model("transformers/gpt2_static_decode") + "/model.onnx";
  const auto run = [&](Arguments arguments, int exit_code) {
    const ProcessResult result = braid(arguments);
    EXPECT_EQ(result.exit_code, exit_code) << result.out << result.err;
    return result;
  };
  run({"check", prefill, "--tp", "2", "--memory-limit", "90500"}, 0);
  run({"compile", prefill, "--tp", "4", "--with", decode + "*50", "--memory-limit", "60000", "--emit", "plan",
       "-o", folder / "out"},
      0);
  // No split fits, but stages do, which have this limit and none of the smaller ones that were tried.
  EXPECT_THAT(run({"explain", decode, "--devices", "2", "--memory-limit", "67000"}, 3).out,
              HasSubstr("13.4 %        65.3 KiB"));
}

// A plan that leaves an output in padded parts, and one in terms of a sum.
TEST(Split, PaddingIsNotCompared) {
  const Folder folder;
  const std::string file = model("ops/matmul_2d") + "/model.onnx";  // [5, 7] x [7, 3]
  const ProcessResult told = braid({"compile", file, "-o", folder / "told", "--emit", "source"});
  ASSERT_EQ(told.exit_code, 0) << told.err;
  std::ifstream stream(folder / "told/manifest.json");
  const nlohmann::json manifest = nlohmann::json::parse(stream);
  const std::string a = manifest["inputs"][0]["name"], b = manifest["inputs"][1]["name"],
                    y = manifest["outputs"][0]["name"];
  const auto quoted = [](const std::string& name) { return '"' + name + '"'; };
  const auto run = [&](Arguments arguments, int exit_code = 0) {
    arguments.insert(arguments.end(), {"--random", "3"});
    const ProcessResult result = braid(arguments);
    EXPECT_EQ(result.exit_code, exit_code) << result.out << result.err;
    return result;
  };
  // As it is computed, padding is what the input's was; as it is cut of the whole, something else.
  const std::string computed =
      folder.file("computed.plan", "plan 1\nranks 2\n" + quoted(a) + " -> " + quoted(y) + " = S(0)\n" +
                                       quoted(y) + " = S(0)\n" + quoted(y) + " -> output = S(0)\n");
  const std::string cut = folder.file("cut.plan", "plan 1\nranks 2\n" + quoted(y) + " -> output = S(0)\n");
  run({"run", file, "--plan", computed, "-o", folder / "computed"});
  run({"run", file, "--plan", cut, "-o", folder / "cut"});
  run({"run", file, "-o", folder / "plain"});
  for (const std::string& plan : {computed, cut}) {
    for (const char* reference : {"computed", "cut", "plain"})
      run({"verify", file, "--plan", plan, "--reference", folder / reference});
    run({"verify", file, "--plan", plan});
  }
  const std::string terms =
      folder.file("terms.plan", "plan 1\nranks 7\n" + quoted(a) + " -> " + quoted(y) + " = S(1)\n" +
                                    quoted(b) + " -> " + quoted(y) + " = S(0)\n" + quoted(y) + " = P(sum)\n" +
                                    quoted(y) + " -> output = P(sum)\n");
  for (const Arguments& more : {Arguments{}, Arguments{"--reference", folder / "plain"}}) {
    Arguments arguments = {"verify", file, "--plan", terms};
    arguments.insert(arguments.end(), more.begin(), more.end());
    EXPECT_THAT(run(arguments, 2).err, AllOf(HasSubstr("BR0484"), HasSubstr("a term of the output")));
  }
  EXPECT_THAT(run({"verify", file, "--plan", cut, "--input", a + "=" + folder / "x.npy"}, 5).err,
              HasSubstr("BR0001"));
}

// Wrong parts in a manifest are ignored.
TEST(Split, ManifestsThatTellNoPossiblePartsAreNotBelieved) {
  const Folder folder;
  const std::string file = model("transformers/gpt2_decode") + "/model.onnx", split = folder / "split";
  const ProcessResult compiled = braid({"compile", file, "--dim", "batch=1..4", "--dim",
                                        "past_sequence=0..16", "-o", split, "--tp", "2", "--split-caches"});
  ASSERT_EQ(compiled.exit_code, 0) << compiled.err;
  std::ifstream stream(split + "/manifest.json");
  const nlohmann::ordered_json good = nlohmann::ordered_json::parse(stream);
  const auto with = [&](const nlohmann::ordered_json& part, const nlohmann::ordered_json& mesh,
                        int exit_code) {
    nlohmann::ordered_json bad = good;
    bad["inputs"][1]["part"] = part;
    if (!mesh.is_null()) bad["mesh"] = mesh;
    std::ofstream(split + "/manifest.json") << bad.dump();
    const ProcessResult ran = braid({"run", split, "--random", "1"});
    EXPECT_EQ(ran.exit_code, 0) << part << ran.err;
    EXPECT_EQ(braid({"inspect", split}).exit_code, exit_code) << part;
  };
  const auto part = [](const std::string& state, const std::string& whole) {
    return nlohmann::ordered_json{{"state", state}, {"whole", nlohmann::ordered_json::parse(whole)}};
  };
  with(part("S(1)", "[\"batch\", 99999999999999, \"past_sequence\", 8]"), nullptr, 0);
  with(part("S(7)", "[\"batch\", 4, \"past_sequence\", 8]"), nullptr, 0);
  with(part("S(1:9223372036854775806+9223372036854775806+8)", "[\"batch\", 4, \"past_sequence\", 8]"),
       nullptr, 0);
  const std::string right = "[\"batch\", 4, \"past_sequence\", 8]";
  for (const char* mesh :
       {R"([{"name": "a", "ranks": 0}])", R"([{"name": "a", "ranks": -1}, {"name": "b", "ranks": -2}])",
        R"([{"name": "a", "ranks": 8}])", R"([{"name": "a", "ranks": "2"}])"})
    with(part("S(1) on a", right), nlohmann::ordered_json::parse(mesh), 0);
  with(5, nullptr, 3);
}

// One plan for two sets of sizes: the price of each, and their sum.
TEST(Split, SizesOfSeveralStepsArePricedTogether) {
  const Folder folder;
  const std::string file = model("transformers/gpt2_decode") + "/model.onnx";
  const auto split = [&](const Arguments& at) {
    Arguments arguments = {"compile",
                           file,
                           "-o",
                           folder / "out",
                           "--name",
                           "m",
                           "--emit",
                           "plan",
                           "--tp",
                           "2",
                           "--dim",
                           "batch=1..64",
                           "--dim",
                           "past_sequence=0..512",
                           "--json=" + (folder / "said.json")};
    for (const std::string& text : at) arguments.insert(arguments.end(), {"--at", text});
    const ProcessResult result = braid(arguments);
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
    std::ifstream stream(folder / "said.json");
    return std::pair(nlohmann::json::parse(stream)["split"], result.out);
  };
  EXPECT_EQ(split({"batch=1,past_sequence=512*1000000"}).first["at"][0]["steps"], 1000000);
  const auto [both, text] = split({"batch=64,past_sequence=0", "batch=1,past_sequence=512*100"});
  EXPECT_THAT(text, AllOf(HasSubstr("us for all steps: "),
                          HasSubstr("us a step at batch=64, past_sequence=0, 1 step"),
                          HasSubstr("us a step at batch=1, past_sequence=512, 100 steps")));
  ASSERT_EQ(both["at"].size(), 2u);
  EXPECT_EQ(both["at"][1]["steps"], 100);
  double sum = 0;
  for (const nlohmann::json& at : both["at"])
    sum += at["simulated_us"].get<double>() * at["steps"].get<double>();
  EXPECT_NEAR(both["simulated_us"].get<double>(), sum, 1e-3);
  EXPECT_LE(both["bound_us"].get<double>(), sum);
  // One set of sizes is no sum.
  const auto [one, other_text] = split({"batch=1,past_sequence=512"});
  EXPECT_FALSE(one.contains("at"));
  EXPECT_LE(one["bound_us"].get<double>(), both["at"][1]["simulated_us"].get<double>());
  EXPECT_THAT(other_text, HasSubstr("us a step"));

  const auto refused = [&](const Arguments& more, const char* number, const char* what) {
    Arguments arguments = {"check", file, "--dim", "batch=1..64", "--dim", "past_sequence=0..512"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const ProcessResult result = braid(arguments);
    EXPECT_EQ(result.exit_code, 2) << result.out;
    EXPECT_THAT(result.err, AllOf(HasSubstr(number), HasSubstr(what)));
  };
  refused({"--at", "batch=1"}, "BR0003", "--at are about a split");
  refused({"--tp", "2", "--at", "batch=65"}, "BR0484", "--at batch=65: the dimension is 1..64");
  refused({"--tp", "2", "--at", "rows=1"}, "BR0484", "--at rows=1: the dimension has no bounds");
  for (const char* text :
       {"batch", "batch=", "batch=1,batch=2", "batch=1*0", "batch=1*x", "*3", "batch=-1", "=1"})
    refused({"--tp", "2", "--at", text}, "BR0003", text);
}

// Two files of one network: one layout of the weights, whichever is compiled.
TEST(Split, ProgramsOfTheSameWeightsAreSplitTogether) {
  const Folder folder;
  const std::string prefill = model("transformers/gpt2_static_prefill") + "/model.onnx";
  const std::string decode = model("transformers/gpt2_static_decode") + "/model.onnx";
  const auto read = [&](const std::string& file) {
    std::ifstream stream(folder / file);
    return std::string(std::istreambuf_iterator<char>(stream), {});
  };
  for (const bool parts : {false, true}) {
    const auto plans = [&](const std::string& out, Arguments arguments) {
      arguments.insert(arguments.begin(), "compile");
      arguments.insert(arguments.end(), {"--tp", "2", "--emit", "plan", "--name", "m", "-o", folder / out});
      if (parts) arguments.push_back("--split-caches");
      const ProcessResult result = braid(arguments);
      EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
      EXPECT_THAT(result.out, HasSubstr("us for all steps: "));
      return std::pair(read(out + "/m.plan"), read(out + "/model.plan"));
    };
    const auto one = plans("one", {prefill, "--with", decode + "*20"});
    const auto other = plans("other", {decode, "--at", "*20", "--with", prefill});
    EXPECT_EQ(one.first, other.second);
    EXPECT_EQ(one.second, other.first);
    // The second program takes the caches that the first one returns.
    std::istringstream lines(one.first);
    int caches = 0;
    for (std::string line; std::getline(lines, line);) {
      if (!line.starts_with("\"present_") || line.find("-> output") == std::string::npos) continue;
      ++caches;
      const std::string name = line.substr(9, line.find('"', 1) - 9), state = line.substr(line.find('='));
      EXPECT_THAT(one.second, HasSubstr("\"past_" + name + "\" " + state)) << line;
    }
    EXPECT_EQ(caches, parts ? 4 : 0) << one.first;
  }
  for (const char* command : {"verify", "check", "run", "explain"}) {
    const ProcessResult result = braid({command, decode, "--tp", "2", "--with", prefill});
    EXPECT_EQ(result.exit_code, 0) << command << result.out << result.err;
    if (std::string(command) == "explain") {
      EXPECT_THAT(result.out,
                  AllOf(HasSubstr("Programs with one layout of 28 weights"), HasSubstr("the layout costs")));
    }
  }
  const ProcessResult said = braid(
      {"explain", prefill, "--devices", "2", "--with", decode + "*3", "--json=" + (folder / "said.json")});
  ASSERT_EQ(said.exit_code, 0) << said.err;
  const nlohmann::json split = nlohmann::json::parse(read("said.json"))["split"];
  ASSERT_EQ(split["programs"].size(), 2u);
  EXPECT_EQ(split["shared_weights"], 28);
  double sum = 0;
  for (const nlohmann::json& program : split["programs"]) {
    EXPECT_GT(program["alone_us"].get<double>(), 0);
    for (const nlohmann::json& at : program["at"])
      sum += at["steps"].get<double>() * at["simulated_us"].get<double>();
  }
  EXPECT_NEAR(split["simulated_us"].get<double>(), sum, 1e-3);

  // Each model has its own dimensions.
  const ProcessResult open =
      braid({"explain", model("transformers/gpt2_prefill") + "/model.onnx", "--tp", "2", "--with",
             model("transformers/gpt2_decode") + "/model.onnx:past_sequence=8*5", "--dim", "batch=1", "--dim",
             "sequence=1..16", "--dim", "past_sequence=0..16"});
  EXPECT_EQ(open.exit_code, 0) << open.out << open.err;
  EXPECT_THAT(open.out, HasSubstr("past_sequence=8, 5 steps"));

  const auto refused = [&](const Arguments& more, int exit_code, const char* number, const char* what) {
    Arguments arguments = {"check", prefill};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const ProcessResult result = braid(arguments);
    EXPECT_EQ(result.exit_code, exit_code) << what << result.out << result.err;
    EXPECT_THAT(result.err, AllOf(HasSubstr(number), HasSubstr(what)));
  };
  refused({"--with", decode}, 2, "BR0003",
          "--with, --strict, --memory-limit, --keep and --at are about a split");
  for (const char* steps : {"*0", "*-1", "*nan", "*1.5", "*", "*1000001", ":=1", ":a=1,a=2", ":a=x"})
    refused({"--tp", "2", "--with", decode + steps}, 2, "BR0003", steps);
  refused({"--tp", "2", "--with", ""}, 2, "BR0003", "no file");
  refused({"--tp", "2", "--with", prefill}, 3, "BR0494", "given already");
  refused({"--tp", "2", "--with", model("transformers") + "/../transformers/gpt2_static_prefill/model.onnx"},
          3, "BR0494", "given already");
  refused({"--tp", "2", "--with", "none.onnx"}, 5, "BR0001", "none.onnx");
  refused({"--tp", "2", "--with", model("transformers/llama_prefill") + "/model.onnx", "--default-dim", "4"},
          3, "BR0494", "weights");
  refused({"--tp", "2", "--with", decode + ":rows=3"}, 2, "BR0484", "rows=3: the dimension has no bounds");
}

TEST(Split, PipelineStagesArePricedButNotGenerated) {
  const Folder folder;
  const std::string file = model("transformers/gpt2_static_prefill") + "/model.onnx";
  const ProcessResult explained =
      braid({"explain", file, "--devices", "4", "--json=" + (folder / "said.json")});
  ASSERT_EQ(explained.exit_code, 0) << explained.out << explained.err;
  EXPECT_THAT(explained.out, AllOf(HasSubstr("Pipeline stages: searched and priced"), HasSubstr("(BR0493)")));
  std::ifstream stream(folder / "said.json");
  const nlohmann::json stages = nlohmann::json::parse(stream)["stages"];
  ASSERT_EQ(stages.size(), 2u);
  for (const nlohmann::json& found : stages) {
    ASSERT_EQ(found["each"].size(), found["stages"].get<std::size_t>());
    EXPECT_EQ(found["stages"].get<int>() * found["ranks"].get<int>(), 4);
    double longest = 0, all = 0;
    for (const nlohmann::json& stage : found["each"]) {
      const double own = stage["compute_us"].get<double>() + stage["transfer_us"].get<double>();
      longest = std::max(longest, own);
      all += own;
    }
    EXPECT_NEAR(found["longest_us"].get<double>(), longest, 1e-3);
    // One step passes all stages; eight take longer.
    EXPECT_NEAR(found["step_us"].get<double>(), all, 1e-3);
    EXPECT_GE(found["steps_us"].get<double>(), found["step_us"].get<double>());
  }
  // Also where nothing that is generated fits.
  const ProcessResult full = braid(
      {"explain", file, "--devices", "4", "--memory-limit", "4096", "--json=" + (folder / "full.json")});
  EXPECT_EQ(full.exit_code, 3);
  EXPECT_THAT(full.err, HasSubstr("BR0488"));
  EXPECT_THAT(full.out, HasSubstr("Pipeline stages: searched and priced"));
  std::ifstream rest(folder / "full.json");
  const nlohmann::json said = nlohmann::json::parse(rest);
  EXPECT_EQ(said["stages"].size(), 2u);
  EXPECT_EQ(said["error"]["number"], "BR0488");
  const ProcessResult refused = braid({"check", file, "--mesh", "pp=2,tp=2"});
  EXPECT_EQ(refused.exit_code, 3);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("BR0493"), HasSubstr("explain --devices N")));
}

TEST(Split, RequestsThatContradictEachOtherAreRefused) {
  const std::string file = model(kSplitCase) + "/model.onnx";
  for (const std::vector<std::string>& more : {std::vector<std::string>{"--devices", "2", "--tp", "2"},
                                               {"--tp", "2", "--ranks", "2"},
                                               {"--tp", "2", "--plan", "x"}}) {
    std::vector<std::string> arguments = {"check", file};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const ProcessResult result = braid(arguments);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.err, HasSubstr("BR0484"));
  }
}

}  // namespace
}  // namespace braid::test
