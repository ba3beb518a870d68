// Every attribute of every operator that ONNX has a schema of, in all versions, out of range, of another
// type, empty and huge: each model gives a program or a user error. A sample in the fast tier, all in the
// deep one.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/frontend/attribute_cases.h"
#include "tests/frontend/models.h"
#include "tests/support/limited_child.h"
#include "tests/support/random.h"

namespace braid::frontend {
namespace {

TEST(AttributesOutOfRange, GiveAProgramOrAUserError) {
  const std::vector<AttributeCase> all = attribute_cases();
  ASSERT_GT(all.size(), 100'000u);
  const auto total = static_cast<std::int64_t>(all.size());
  const bool deep =
      test::random_cases(100) >= 100 * 100;  // BRAID_RANDOM_SCALE as scripts/test_deep.sh sets it
  const std::int64_t count = deep ? total : std::min<std::int64_t>(total, test::random_cases(1000));
  fmt::print("{} of {} cases\n", count, total);
  const auto case_at = [&](int k) -> const AttributeCase& {
    return all[static_cast<std::size_t>(k * total / count)];
  };
  const TemporaryFolder folder;
  const std::vector<test::CaseFailure> failures = test::run_limited(static_cast<int>(count), [&](int k) {
    const std::string path = folder.write(std::to_string(k) + ".onnx", model_of(case_at(k)));
    const struct Removed {
      const std::string& path;
      ~Removed() { std::filesystem::remove(path); }
    } removed{path};
    import_model(path, {});
  });
  for (const auto& [number, what] : failures) ADD_FAILURE() << case_at(number).text() << ": " << what;
}

}  // namespace
}  // namespace braid::frontend
