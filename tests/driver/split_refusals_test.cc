// Splits that are refused: by the model, by --strict, and because options contradict each other.
#include <fmt/format.h>

#include "driver/split_report.h"
#include "tests/driver/split_models.h"

namespace braid {
namespace {

using test::layer;
using test::network;
using test::SplitModel;
using test::weight;

TEST_F(SplitModel, HeadsThatDoNotDivideAreNamed) {
  CompileOptions o = options(layer(5, 24, 6));
  const auto error = [&](int ranks) {
    o.split.tensor_ranks = ranks;
    return frontend::error_of([&] { lower(o); });
  };
  EXPECT_EQ(error(4).code(), 487);  // BR0487
  EXPECT_NE(error(4).message().find("the 6 heads of 's' are not divisible by 4"), std::string::npos)
      << error(4).message();
  EXPECT_NE(error(4).hint().find("would do: 2, 3, 6;"), std::string::npos) << error(4).hint();
  for (const int ranks : {2, 3, 6}) {
    o.split.tensor_ranks = ranks;
    EXPECT_EQ(lower(o).graph.ranks, ranks);
  }
  // Others may leave attention whole.
  o.split = {};
  o.split.devices = 4;
  EXPECT_NO_THROW(lower(o));
  // Without attention: a dimension of some product.
  o = options(network(1, 5, 6));
  o.split.tensor_ranks = 5;  // the rows
  EXPECT_NO_THROW(lower(o));
  EXPECT_EQ(error(7).code(), 487);
  EXPECT_NE(error(7).message().find("such as that with 'up0' of 6 x 12"), std::string::npos)
      << error(7).message();
  EXPECT_NE(error(7).hint().find("2, 3, 4, 5, 6, 12"), std::string::npos) << error(7).hint();
}

TEST_F(SplitModel, StrictRefusesWhatIsReplicatedWithoutARule) {
  CompileOptions o = options(network(1, 64, 32));
  o.split.tensor_ranks = 2;
  o.split.strict = true;
  o.split.conversion_share = 100;
  EXPECT_NO_THROW(lower(o));
  o.split.conversion_share = 0;
  const ir::UserError error = frontend::error_of([&] { lower(o); });
  EXPECT_EQ(error.code(), 489);  // BR0489
  EXPECT_NE(error.message().find("'y': S(0) -> R"), std::string::npos) << error.message();
  o = options("g (float[4,4] x) => (float[4,4] y) <" + weight("w", 4, 4) +
              "> { h = MatMul(x, w)\n z = RandomNormalLike<seed = 1.0>(h)\n y = Add(h, z) }");
  o.split.tensor_ranks = 2;
  EXPECT_NO_THROW(lower(o));
  o.split.strict = true;
  o.split.conversion_share = 100;
  const ir::UserError replicated = frontend::error_of([&] { lower(o); });
  EXPECT_EQ(replicated.code(), 489);
  EXPECT_NE(replicated.message().find("1 RandomNormalLike computed whole"), std::string::npos)
      << replicated.message();
}

// The hint of BR0480 says by what to divide, and that is enough.
TEST_F(SplitModel, TooManyStepsAreToldANumberThatWouldDo) {
  std::string text = network(1, 1, 64);
  for (std::size_t at = 0; (at = text.find("float[1,64]", at)) != std::string::npos;) text[at + 6] = 'n';
  CompileOptions o = options(text);
  o.machine = "cpu";
  o.import.dims["n"] = {1, 100'000'000};
  o.split.tensor_ranks = 2;
  o.split.sizes = {{{}, 1'000'000}};
  const ir::UserError error = frontend::error_of([&] { lower(o); });
  EXPECT_EQ(error.code(), 480) << error.message();
  const std::string divide = "by ";
  const std::int64_t times = std::stoll(error.hint().substr(error.hint().find(divide) + divide.size()));
  EXPECT_GT(times, 1);
  o.split.sizes[0].steps /= times;
  EXPECT_GE(o.split.sizes[0].steps, 1);
  EXPECT_NO_THROW(lower(o));
}

// Bounds weigh costs, so the sum of a plan's costs may be representable where the sum of its bounds is not.
// Then there are no bounds, and the model is split all the same. Only costs that are too large for the search
// of plans are refused.
TEST_F(SplitModel, BoundsThatCannotBeAddedUpRefuseNoModel) {
  std::string text = network(1, 1, 64);
  for (std::size_t at = 0; (at = text.find("float[1,64]", at)) != std::string::npos;) text[at + 6] = 'n';
  CompileOptions o = options(text);
  o.machine = "cpu";
  o.split.tensor_ranks = 2;
  o.split.explain = true;  // asks for the plan where collectives are 64 times as slow
  int bounded = 0, unbounded = 0, refused = 0;
  for (std::int64_t most = 1'000'000; most < 1'000'000'000'000; most *= 8) {
    SCOPED_TRACE(most);
    o.import.dims["n"] = {1, most};
    SplitReport report;
    try {
      EXPECT_EQ(lower(o, report).graph.ranks, 2);
      ++(report.lower_bound().ps > 0 ? bounded : unbounded);
      EXPECT_EQ(refused, 0);
    } catch (const ir::UserError& error) {
      EXPECT_EQ(error.code(), 480) << error.message();
      ++refused;
    }
  }
  EXPECT_GT(bounded, 0);
  EXPECT_GT(unbounded, 0);
  EXPECT_GT(refused, 0);
}

TEST_F(SplitModel, RequestsThatContradictEachOtherAreRefused) {
  const CompileOptions good = options(network(1, 3, 8));
  const auto code = [](const CompileOptions& o) { return frontend::error_of([&] { lower(o); }).code(); };
  CompileOptions o = good;
  o.split = {2, 2, ""};
  EXPECT_EQ(code(o), 484);
  o.split = {0, 2, "x.plan"};
  EXPECT_EQ(code(o), 484);
  o.split = {0, 2, ""};
  o.split.mesh = "dp=2,tp=2";
  EXPECT_EQ(code(o), 484);
  for (const char* mesh : {"dp=2,dp=2", "dp", "dp=0", "dp=2000"}) {
    o.split = {};
    o.split.mesh = mesh;
    EXPECT_EQ(code(o), 484) << mesh;
  }
  o = good;
  o.split.devices = 2;
  o.import.ranks = 2;
  EXPECT_EQ(code(o), 484);
  o = good;
  o.split.devices = 2;
  o.model = "program.braid";
  EXPECT_EQ(code(o), 484);
  o = good;
  o.split.plan_file = folder_.file("none.plan");
  EXPECT_EQ(code(o), 1);
}

}  // namespace
}  // namespace braid
