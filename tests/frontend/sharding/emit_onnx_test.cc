// Models of ranks as ONNX files: read again, they are the same program.
#include "frontend/emit_onnx.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/error_numbers.h"
#include "ir/interpreter.h"
#include "ir/printer.h"
#include "tests/frontend/sharding/chosen.h"
#include "tests/frontend/sharding/emitted.h"
#include "tests/frontend/sharding/proof.h"
#include "tests/paths.h"
#include "tests/support/onnx_cases.h"

namespace braid::frontend::sharding {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr CollectiveForm kForms[] = {CollectiveForm::braid, CollectiveForm::microsoft, CollectiveForm::dist};

// The same bits on all ranks as the schedule that was not written.
void expect_same_results(const ir::Schedule& direct, const ir::Schedule& again,
                         const std::vector<std::vector<ir::Tensor>>& inputs, const std::string& what) {
  const auto expected = ir::run(direct, inputs).outputs, got = ir::run(again, inputs).outputs;
  for (std::size_t r = 0; r < expected.size(); ++r) {
    for (std::size_t k = 0; k < expected[r].size(); ++k)
      EXPECT_TRUE(got[r][k] == expected[r][k])
          << what << ", rank " << r << ", output " << k << ": " << difference(got[r][k], expected[r][k], 0);
  }
}

std::string refusal(const std::string& path, const ImportOptions& options, CollectiveForm form) {
  try {
    emitted(path, options, {.form = form});
  } catch (const ir::UserError& error) {
    EXPECT_EQ(error.code(), errors::kCollectiveForm) << error.what();
    return error.what();
  }
  return "";
}

// Cases of the test models on so many ranks, in every form.
void check_models(const char* part, const std::vector<int>& all_ranks, std::size_t every, int& emissions) {
  const fs::path root = paths::test_models(part);
  if (!fs::exists(root)) GTEST_SKIP() << "no models: ctest makes them";
  std::size_t count = 0;
  for (const fs::path& folder : test::sorted_entries(root)) {
    if (count++ % every != 0) continue;
    std::string path;
    const ImportOptions whole = test::import_options_of(folder, path);
    for (const int ranks : whole.ranks > 1 ? std::vector{whole.ranks} : all_ranks) {
      Chosen chosen;
      ImportOptions options = whole;
      if (whole.ranks == 1 && ranks > 1) {
        options.ranks = ranks;
        options.split = chosen_request(chosen);
      }
      SCOPED_TRACE(fmt::format("{} on {} ranks", folder.filename().string(), options.ranks));
      const ir::Schedule direct = import_model(path, options);
      const auto sets = test::read_data_sets(folder, options.ranks);
      for (const CollectiveForm form : kForms) {
        try {
          // Texts name data files, so there are none where they are compared.
          const bool same = form == CollectiveForm::braid && options.split;
          const std::int64_t external = same ? 1 << 30 : 1024;
          const ir::Schedule again =
              read_again(emitted(path, options, {.form = form, .external_bytes = external}), options);
          ++emissions;
          if (same) {
            EXPECT_EQ(difference_of_texts(again, direct), "");
          }
          std::vector<std::vector<ir::Tensor>> inputs;
          for (const test::DataSet& of_rank : sets.at(0)) inputs.push_back(of_rank.inputs);
          expect_same_results(direct, again, inputs, to_string(form));
        } catch (const ir::UserError& error) {
          EXPECT_EQ(error.code(), errors::kCollectiveForm) << error.what();
          EXPECT_NE(form, CollectiveForm::braid) << error.what();
        }
      }
    }
  }
}

TEST(EmitOnnx, TransformersAreTheSameProgram) {
  int emissions = 0;
  check_models("transformers", {1, 2, 4}, 1, emissions);
  fmt::print("{} emissions\n", emissions);
}

TEST(EmitOnnx, ModelsThatWereSplitByHandChangeTheirForm) {
  int emissions = 0;
  check_models("collectives", {}, 1, emissions);
  fmt::print("{} emissions\n", emissions);
}

// Every conversion between states, in every form that has its collectives.
TEST(EmitOnnx, EveryConversionIsTheSameProgram) {
  const TemporaryFolder folder;
  const std::string path =
      folder.write("model.onnx", parse_model("g (float[36, 36, 2] x) => (float[36, 36, 2] y) { h = "
                                             "Identity(x) y = Identity(h) }",
                                             18));
  const ir::Tensor whole = random_tensor(ir::DType::f32, {36, 36, 2}, -9, 9, false, 3);
  int refused = 0, written = 0;
  for (const int ranks : {2, 3}) {
    const std::vector<Spec> states = {Spec::replicated(),
                                      Spec::split(0),
                                      Spec::split(1),
                                      Spec::split(1, {12, 24}),
                                      Spec::split(0, {12, 12, 12}),
                                      Spec::pending(ir::ReduceKind::sum),
                                      Spec::pending(ir::ReduceKind::max),
                                      Spec::pending(ir::ReduceKind::prod)};
    for (const Spec& from : states) {
      for (const Spec& to : states) {
        if (!conversion_steps(from, to, ir::DType::f32, 1, ranks)) continue;
        Plan plan;
        plan.ranks = ranks;
        plan.values["x"] = plan.values["h"] = from;
        plan.readers[{"h", {"y", -1}}] = plan.values["y"] = plan.readers[{"y", {"", -1}}] = to;
        auto request = std::make_shared<SplitRequest>();
        request->plan = to_string(plan);
        ImportOptions options;
        options.ranks = ranks;
        options.split = request;
        const ir::Schedule direct = import_model(path, options);
        std::vector<std::vector<ir::Tensor>> inputs;
        for (ir::Tensor& p : cut(whole, from, ranks, 5)) inputs.push_back({std::move(p)});
        for (const CollectiveForm form : kForms) {
          const std::string what =
              fmt::format("{} to {} as {}", to_string(from), to_string(to), to_string(form));
          const bool scatters = from.is_pending() && to.is_split();
          if (form == CollectiveForm::microsoft &&
              (scatters || (from.is_pending() && from.reduce != ir::ReduceKind::sum && from != to))) {
            EXPECT_THAT(refusal(path, options, form), HasSubstr("com.microsoft has no form for")) << what;
            ++refused;
            continue;
          }
          const ir::Schedule again = read_again(emitted(path, options, {.form = form}), options);
          if (form == CollectiveForm::braid) {
            EXPECT_EQ(difference_of_texts(again, direct), "") << what;
          }
          expect_same_results(direct, again, inputs, what);
          ++written;
        }
      }
    }
  }
  EXPECT_GT(written, 200);
  EXPECT_GT(refused, 20);
}

TEST(EmitOnnx, RefusesByNameWhatAFormLacks) {
  const auto message = [](const std::string& graph, CollectiveForm form) {
    const TemporaryFolder folder;
    return refusal(folder.write("model.onnx", parse_model(graph)), {.ranks = 2}, form);
  };
  const CollectiveForm ms = CollectiveForm::microsoft, dist = CollectiveForm::dist;
  EXPECT_THAT(message("g (float[4] x) => (float[2] y) { y = ai.braid.ReduceScatter(x) }", ms),
              AllOf(HasSubstr("com.microsoft has no form for ReduceScatter"), HasSubstr("ReduceScatter")));
  EXPECT_THAT(
      message("g (float[4] x) => (float[4] y) { y = ai.braid.AllReduce <reduce_op = \"max\"> (x) }", ms),
      HasSubstr("a reduction by max"));
  EXPECT_THAT(message("g (int64[4] x) => (int64[4] y) { y = ai.braid.AllReduce(x) }", ms),
              HasSubstr("AllReduce of INT64"));
  EXPECT_THAT(message("g (float[4] x) => (float[4] y) { y = ai.braid.AllReduce <group = [1]> (x) }", ms),
              HasSubstr("a collective of the ranks 1"));
  EXPECT_THAT(message("g (float[4] x) => (float[4] y) { y = ai.braid.Broadcast(x) }", ms),
              HasSubstr("Broadcast"));
  EXPECT_THAT(
      message("g (float[4] x) => (float[4] y) { y = ai.braid.BatchSendRecv <pairs = [0, 1]> (x) }", dist),
      HasSubstr("DistCollective has no form for BatchSendRecv"));
  EXPECT_THAT(
      message("g (float[4] x) => (float[4] y) { y = ai.braid.AllToAll <split_sizes = [2, 2, 2, 2]> (x) }",
              dist),
      HasSubstr("'split_sizes'"));
}

TEST(EmitOnnx, AGroupOfRanksKeepsItsOrderAndItsRoot) {
  const TemporaryFolder folder;
  const std::string path = folder.write(
      "model.onnx",
      parse_model("g (float[4] x) => (float[8] y, float[4] z, float[4] w) { y = ai.braid.AllGather <group "
                  "= [2, 1]> (x) z = ai.braid.Broadcast <group = [2, 0, 1], root = 2> (x) w = "
                  "ai.braid.WaitTensor(z) }"));
  const ImportOptions options{.ranks = 3};
  const ir::Schedule direct = import_model(path, options),
                     again = read_again(emitted(path, options, {.form = CollectiveForm::dist}), options);
  std::vector<std::vector<ir::Tensor>> inputs;
  for (unsigned r = 0; r < 3; ++r) inputs.push_back({random_tensor(ir::DType::f32, {4}, -9, 9, false, r)});
  const auto expected = ir::run(direct, inputs).outputs, got = ir::run(again, inputs).outputs;
  for (std::size_t r = 0; r < 3; ++r) {
    if (r > 0) {  // rank 0 is not in that group
      EXPECT_EQ(got[r][0], expected[r][0]);
    }
    EXPECT_EQ(got[r][1], inputs[1][0]);
    EXPECT_EQ(got[r][2], inputs[1][0]);
  }
  const ir::Schedule back = read_again(emitted(path, options, {.form = CollectiveForm::braid}), options);
  EXPECT_EQ(ir::print(back), ir::print(direct));
}

onnx::TensorProto& add_weight(onnx::GraphProto& graph, const char* name, int type,
                              const std::vector<std::int64_t>& sizes, const std::string& raw) {
  onnx::TensorProto& weight = *graph.add_initializer();
  weight.set_name(name);
  weight.set_data_type(type);
  for (const std::int64_t size : sizes) weight.add_dims(size);
  weight.set_raw_data(raw);
  return weight;
}

// A rank's file has only its own part of a weight; data that all ranks share is written once. Every run
// writes the same bytes.
TEST(EmitOnnx, LargeWeightsLieInDataFilesEachRankItsOwn) {
  onnx::ModelProto model =
      parse_model("g (float[4, 64] x) => (float[4, 96] z) { h = MatMul(x, w) z = Add(h, b) }", 18);
  const ir::Tensor w = random_tensor(ir::DType::f32, {64, 96}, -9, 9, false, 1),
                   b = random_tensor(ir::DType::f32, {4, 96}, -9, 9, false, 2);
  const auto raw = [](const ir::Tensor& t) {
    return std::string(reinterpret_cast<const char*>(t.bytes.data()), t.bytes.size());
  };
  add_weight(*model.mutable_graph(), "w", onnx::TensorProto::FLOAT, {64, 96}, raw(w));
  add_weight(*model.mutable_graph(), "b", onnx::TensorProto::FLOAT, {4, 96}, raw(b));
  const TemporaryFolder folder;
  const std::string path = folder.write("model.onnx", model);
  auto request = std::make_shared<SplitRequest>();
  request->plan = "plan 1\nranks 2\n\"h\" = S(1)\n\"w\" -> \"h\" = S(1)\n\"h\" -> \"z\" = R\n";
  ImportOptions options;
  options.ranks = 2;
  options.split = request;
  const Files files = emitted(path, options, {.external_bytes = 1000});
  std::vector<std::string> names;
  for (const auto& [name, bytes] : files) names.push_back(name);
  EXPECT_THAT(names, testing::ElementsAre("m.rank0.onnx", "m.rank0.weights", "m.rank1.onnx",
                                          "m.rank1.weights", "m.weights"));
  EXPECT_EQ(files.at("m.rank0.weights").size(), w.bytes.size() / 2);
  EXPECT_EQ(files.at("m.weights"), raw(b));
  EXPECT_LT(files.at("m.rank0.onnx").size(), 1500U);
  EXPECT_EQ(files, emitted(path, options, {.external_bytes = 1000}));
  // Row k of rank r's part: columns 48 r to 48 r + 47.
  for (int r = 0; r < 2; ++r) {
    const std::string& part = files.at(fmt::format("m.rank{}.weights", r));
    for (std::size_t k = 0; k < 64; ++k)
      EXPECT_EQ(part.substr(k * 192, 192), raw(w).substr(k * 384 + static_cast<std::size_t>(r) * 192, 192));
  }
  const ir::Tensor x = random_tensor(ir::DType::f32, {4, 64}, -9, 9, false, 3);
  const ir::Schedule direct = import_model(path, options), again = read_again(files, options);
  expect_same_results(direct, again, {{x}, {x}}, "external");
  EXPECT_EQ(ir::print(read_again(emitted(path, options, {}), options)), ir::print(direct));
}

TEST(EmitOnnx, NumbersBelowOneByteAreStoredPacked) {
  onnx::ModelProto model = parse_model(
      "g (float[3, 5] x) => (float[3, 5] y) { f = DequantizeLinear(w, s) g = DequantizeLinear(u, s) h = "
      "Add(x, "
      "f) y = Add(h, g) }",
      25);
  model.set_ir_version(13);
  const float scale = 0.5F;
  add_weight(*model.mutable_graph(), "s", onnx::TensorProto::FLOAT, {},
             std::string(reinterpret_cast<const char*>(&scale), 4));
  const std::map<std::string, std::string> stored = {
      {"w", std::string("\x1f\x82\x73\x64\x55\x46\x37\x0d", 8)}, {"u", std::string("\x1b\xe4\x39\x2d", 4)}};
  add_weight(*model.mutable_graph(), "w", onnx::TensorProto::INT4, {3, 5}, stored.at("w"));
  add_weight(*model.mutable_graph(), "u", onnx::TensorProto::UINT2, {3, 5}, stored.at("u"));
  const TemporaryFolder folder;
  const std::string path = folder.write("model.onnx", model);
  for (const std::int64_t external : {1, 1000}) {
    const Files files = emitted(path, {}, {.external_bytes = external});
    onnx::ModelProto again;
    ASSERT_TRUE(again.ParseFromString(files.at("m.rank0.onnx")));
    if (external == 1000) {
      for (const onnx::TensorProto& weight : again.graph().initializer()) {
        if (weight.name() != "s") {
          EXPECT_EQ(weight.raw_data(), stored.at(weight.name()));
        }
      }
    }
    const ir::Tensor x = random_tensor(ir::DType::f32, {3, 5}, -9, 9, false, 3);
    expect_same_results(import_model(path, {}), read_again(files, {}), {{x}}, "packed");
  }
}

TEST(OfRank, IsARowPerRank) {
  const char* text =
      "g (float[2] x) => (float[2] y, int64[2] p) { t = Constant <value = float[2, 2] {1, 2, 3, 4}> () row = "
      "ai.braid.OfRank(t) y = Add(x, row) c = Constant <value = int64[2, 2] {5, 6, 5, 6}> () p = "
      "ai.braid.OfRank(c) }";
  const ir::Schedule schedule = import_text(text, {.ranks = 2});
  const ir::Tensor x = random_tensor(ir::DType::f32, {2}, 0, 0, false, 3);
  const std::vector<std::vector<ir::Tensor>> inputs{{x}, {x}};
  const auto outputs = ir::run(schedule, inputs).outputs;
  EXPECT_EQ(test::element(outputs[0][0], 1), 2);
  EXPECT_EQ(test::element(outputs[1][0], 0), 3);
  EXPECT_EQ(test::element(outputs[1][1], 1), 6);
  const auto code = [](const char* graph, int ranks) {
    try {
      import_text(graph, {.ranks = ranks});
    } catch (const ir::UserError& error) {
      return error.code();
    }
    return 0;
  };
  EXPECT_EQ(code(text, 3), errors::kRankCount);
  EXPECT_EQ(code("g (float[2] x) => (float y) { y = ai.braid.OfRank(x) }", 2), errors::kUnsupportedForm);
  // A coordinate decides no shape: ranks run one program.
  EXPECT_EQ(code("g (float[a] x) => (float[b] y) { t = Constant <value = int64[2, 1] {1, 2}> () n = "
                 "ai.braid.OfRank(t) y = Expand(x, n) }",
                 2),
            errors::kUnboundedDimension);
  EXPECT_EQ(code("g (float[1] x) => (float[b] y) { t = Constant <value = int64[2, 1] {1, 2}> () n = "
                 "ai.braid.OfRank(t) y = Expand(x, n) }",
                 2),
            errors::kRankWeightDecidesShape);
}

}  // namespace
}  // namespace braid::frontend::sharding
