// The corpus of broken models (tests/models/make_bad_models.py): each is refused with the error that it
// deserves, and the message says what the corpus asks for.
#include <gmock/gmock.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <ostream>
#include <regex>

#include "frontend/functions.h"
#include "ir/error_numbers.h"
#include "tests/frontend/models.h"
#include "tests/paths.h"

namespace braid::frontend {
namespace {

const std::map<std::string, int> kCodes = {
    {"cyclic_graph", errors::kCyclicGraph},
    {"data_dependent_size", errors::kDataDependentSize},
    {"duplicate_name", errors::kDuplicateName},
    {"external_data_entry", errors::kExternalDataEntry},
    {"external_data_missing", errors::kExternalDataMissing},
    {"external_data_path", errors::kExternalDataPath},
    {"external_data_short", errors::kExternalDataShort},
    {"file_not_readable", errors::kFileNotReadable},
    {"function_expansion", errors::kFunctionExpansion},
    {"initializer_size", errors::kInitializerSize},
    {"invalid_attribute", errors::kInvalidAttribute},
    {"invalid_dimension", errors::kInvalidDimension},
    {"invalid_node", errors::kInvalidNode},
    {"ir_version", errors::kIrVersion},
    {"not_onnx", errors::kNotOnnx},
    {"not_sorted", errors::kNotSorted},
    {"opset", errors::kOpset},
    {"rank_count", errors::kRankCount},
    {"rank_file_missing", errors::kRankFileMissing},
    {"rank_weight_decides_shape", errors::kRankWeightDecidesShape},
    {"ranks_differ", errors::kRanksDiffer},
    {"recursive_function", errors::kRecursiveFunction},
    {"shape_mismatch", errors::kShapeMismatch},
    {"size_overflow", errors::kSizeOverflow},
    {"type_mismatch", errors::kTypeMismatch},
    {"unbounded_dimension", errors::kUnboundedDimension},
    {"undefined_value", errors::kUndefinedValue},
    {"unknown_domain", errors::kUnknownDomain},
    {"unknown_op", errors::kUnsupportedOperators},
    {"unknown_shape", errors::kUnknownShape},
    {"unsupported_type", errors::kUnsupportedType},
};

std::string root() { return paths::source("tests/corpus/bad_models"); }

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
