// The corpus of broken models (tests/models/make_bad_models.py): each is refused with the error that it
// deserves, and the message says what the corpus asks for.
#include <gmock/gmock.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <ostream>
#include <regex>

#include "frontend/errors.h"
#include "frontend/functions.h"
#include "tests/frontend/models.h"

namespace braid::frontend {
namespace {

const std::map<std::string, int> kCodes = {
    {"cyclic_graph", kCyclicGraph},
    {"data_dependent_size", kDataDependentSize},
    {"duplicate_name", kDuplicateName},
    {"external_data_entry", kExternalDataEntry},
    {"external_data_missing", kExternalDataMissing},
    {"external_data_path", kExternalDataPath},
    {"external_data_short", kExternalDataShort},
    {"file_not_readable", kFileNotReadable},
    {"function_expansion", kFunctionExpansion},
    {"initializer_size", kInitializerSize},
    {"invalid_attribute", kInvalidAttribute},
    {"invalid_dimension", kInvalidDimension},
    {"invalid_node", kInvalidNode},
    {"ir_version", kIrVersion},
    {"not_onnx", kNotOnnx},
    {"not_sorted", kNotSorted},
    {"opset", kOpset},
    {"rank_count", kRankCount},
    {"rank_file_missing", kRankFileMissing},
    {"rank_weight_decides_shape", kRankWeightDecidesShape},
    {"ranks_differ", kRanksDiffer},
    {"recursive_function", kRecursiveFunction},
    {"shape_mismatch", kShapeMismatch},
    {"size_overflow", kSizeOverflow},
    {"type_mismatch", kTypeMismatch},
    {"unbounded_dimension", kUnboundedDimension},
    {"undefined_value", kUndefinedValue},
    {"unknown_domain", kUnknownDomain},
    {"unknown_op", kUnsupportedOperators},
    {"unknown_shape", kUnknownShape},
    {"unsupported_type", kUnsupportedType},
};

std::string root() { return std::string(BRAID_SOURCE_DIR) + "/tests/corpus/bad_models"; }

struct BadModel {
  std::string name;
  nlohmann::json expect;
  friend void PrintTo(const BadModel& model, std::ostream* out) { *out << model.name; }
};

std::vector<BadModel> corpus() {
  std::ifstream file(root() + "/expect.json");
  std::vector<BadModel> models;
  const nlohmann::json all = nlohmann::json::parse(file);  // outlives items()
  for (const auto& [name, expect] : all.items()) models.push_back({name, expect});
  return models;
}

class BadModelCorpus : public ::testing::TestWithParam<BadModel> {};

TEST_P(BadModelCorpus, IsRefusedByNumberAndName) {
  const nlohmann::json& expect = GetParam().expect;
  ImportOptions options{.ranks = expect["ranks"]};
  for (const auto& [name, bounds] : expect["dims"].items()) options.dims[name] = {bounds[0], bounds[1]};
  const ir::UserError error =
      error_of([&] { import_model(root() + "/" + expect["model"].get<std::string>(), options); });
  EXPECT_EQ(error.code(), kCodes.at(expect["kind"])) << error.what();
  for (const std::string text : expect["mentions"]) EXPECT_THAT(error.what(), ::testing::HasSubstr(text));
  EXPECT_FALSE(std::regex_search(error.what(), std::regex("\\.(h|cc|cpp):[0-9]"))) << error.what();
}

INSTANTIATE_TEST_SUITE_P(Corpus, BadModelCorpus, ::testing::ValuesIn(corpus()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace braid::frontend
