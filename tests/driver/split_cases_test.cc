// Every operator, split in every way: the cases of ONNX's node suite and random ones
// (tests/frontend/reference). Splits are requested as on the command line, and by plans that force each
// combination of each rule. Every split that is not refused by a numbered error computes the same as the
// plain model, as imported and after all passes. The fast tier takes some cases, the deep one
// (scripts/test_deep.sh) all.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "ir/interpreter.h"
#include "tests/paths.h"
#include "tests/support/random.h"
#include "tests/support/split_sweep.h"

namespace braid::test {
namespace {

struct Counts {
  int splits = 0, refused = 0, wrong = 0;
};

// Holds one split to the plain program.
void hold(const SweepCase& c, const Split& split, const std::vector<ir::Tensor>& plain, Counts& counts) {
  SCOPED_TRACE(split.what);
  ++counts.splits;
  std::string wrong;
  try {
    ir::Schedule schedule = split.lower();
    wrong = split_difference(ir::run(schedule, inputs_of(schedule, c)).outputs, plain);
    if (wrong.empty()) {
      optimise(schedule, c.options);
      wrong = split_difference(ir::run(schedule, inputs_of(schedule, c)).outputs, plain);
      if (!wrong.empty()) wrong = "optimised: " + wrong;
    }
  } catch (const ir::UserError& error) {
    ++counts.refused;
    if (std::getenv("BRAID_SWEEP_VERBOSE") != nullptr)
      fmt::print("refused: {} {}: {}\n", c.folder.string(), split.what, error.what());
  } catch (const std::exception& error) {
    wrong = error.what();
  }
  if (wrong.empty()) return;
  ++counts.wrong;
  ADD_FAILURE() << c.folder.string() << ": " << wrong;
}

void hold_case(const fs::path& folder, bool binds_inputs, std::size_t forced, Counts& counts) {
  if (std::getenv("BRAID_SWEEP_VERBOSE") != nullptr) fmt::print("{}\n", folder.string());
  std::fflush(stdout);
  std::optional<SweepCase> c;
  std::vector<ir::Tensor> plain;
  try {
    c = sweep_case(folder, binds_inputs);
    if (!c) return;
    const ir::Schedule schedule = lower(c->options);
    plain = ir::run(schedule, inputs_of(schedule, *c)).outputs[0];
  } catch (const std::exception&) {  // other tests look at the plain model
    return;
  }
  for (const Split& split : asked_splits(*c)) hold(*c, split, plain, counts);
  for (const char* mesh : {"2", "3", "a=2,b=2"}) {
    for (const Split& split : forced_splits(*c, mesh, forced)) hold(*c, split, plain, counts);
  }
}

void print(const char* what, std::size_t cases, const Counts& counts) {
  fmt::print("{}: {} cases, {} splits, {} refused, {} wrong\n", what, cases, counts.splits, counts.refused,
             counts.wrong);
}

TEST(SplitCases, RandomCasesOfOperators) {
  const fs::path root = paths::test_models("reference");
  if (!fs::exists(root)) GTEST_SKIP() << "no cases in " << root << "; ctest makes them";
  Counts counts;
  std::size_t cases = 0;
  const std::uint64_t first = first_seed();
  for (const fs::path& op : sorted_entries(root)) {
    const std::vector<fs::path> all = sorted_entries(op);
    const std::size_t count = is_deep() ? all.size() : std::min<std::size_t>(all.size(), 1);
    for (std::size_t k = 0; k < count; ++k, ++cases)
      hold_case(all[is_deep() ? k : (first + cases) % all.size()], false, is_deep() ? 1000 : 4, counts);
  }
  print("random cases of operators", cases, counts);
}

TEST(SplitCases, NodesOfOnnx) {
  if (!fs::exists(paths::onnx_cases("fingerprint")))
    GTEST_SKIP() << "tests/models/make_onnx_cases.py has written no cases";
  const std::vector<fs::path> all = sorted_entries(paths::onnx_cases("node"));
  Counts counts;
  const std::size_t step = is_deep() ? 1 : 12;
  std::size_t cases = 0;
  for (std::size_t k = is_deep() ? 0 : first_seed() % step; k < all.size(); k += step, ++cases)
    hold_case(all[k], true, is_deep() ? 1000 : 4, counts);
  print("ONNX's node cases", cases, counts);
}

}  // namespace
}  // namespace braid::test
