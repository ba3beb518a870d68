// The model of kernels' times (analysis/costs/kernel_time.h) held against every timing of bench/gpu/RESULTS.md.
#include "analysis/costs/kernel_time.h"

#include <cmath>
#include <fstream>
#include <map>
#include <sstream>

#include "analysis/costs/machine.h"
#include "cli/model_counts.h"
#include "runtime/emulated/kernel_counts.h"
#include "tests/emulated/measured_kernels.h"
#include "tests/emulated/support.h"

namespace braid::test {
namespace {

constexpr double kTolerance = 0.25;

// Rows that the model misses, and its part of the measured time. A row that comes within the tolerance must leave this list.
const std::map<std::string, double> kMissed = {};

struct Row {
  std::string name;  // kernel_add_f32
  double us;         // Braid, graph
};

// Of the table of timings; rows without a time are left out.
std::vector<Row> measured_rows() {
  std::ifstream file(BRAID_SOURCE_DIR "/bench/gpu/RESULTS.md");
  std::vector<Row> rows;
  bool timings = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("## ")) timings = line == "## Timings";
    if (!timings || !line.starts_with("| ")) continue;
    std::istringstream cells(line);
    std::vector<std::string> cell;
    for (std::string text; std::getline(cells, text, '|');) cell.push_back(text);
    if (cell.size() < 7 || cell[1].find('@') == std::string::npos) continue;
    char* end = nullptr;
    const double us = std::strtod(cell[3].c_str(), &end);
    if (end != cell[3].c_str()) rows.push_back({cell[1].substr(1, cell[1].find('@') - 1), us});
  }
  return rows;
}

const analysis::KernelCard& card_of(const std::string& program) {
  static const std::vector<analysis::KernelCard> cards =
      analysis::read_kernel_cards(BRAID_SOURCE_DIR "/tests/emulated/measured_cards.json");
  for (const analysis::KernelCard& card : cards)
    if (card.program == program) return card;
  throw std::runtime_error("no card of " + program);
}

class KernelTime : public EmulatedTest {
 protected:
  void SetUp() override {
    EmulatedTest::SetUp();
    emulated::options().count_accesses = true;
    emulated::take_kernel_counts();
  }
  static analysis::PredictedTime predicted(const std::string& kernel, const std::string& type) {
    const MeasuredRun run = run_measured_kernel(kernel, type);
    EXPECT_EQ(run.error, nullptr) << run.error;
    analysis::KernelCounts counts;
    braid_emulated_take_kernel_counts(&counts, [](void* self, const BraidKernelCounts* kernel) {
      *static_cast<analysis::KernelCounts*>(self) = cli::model_counts(*kernel);
    });
    counts *= run.factor;
    return analysis::predicted_time(counts, card_of("kernel_" + kernel + "_" + type),
                                    *analysis::load_machine("h200").gpu);
  }
};

TEST_F(KernelTime, IsThatOfEveryMeasuredRowButThoseNamed) {
  BRAID_NEEDS_OBSERVED_ACCESSES();
  for (const Row& row : measured_rows()) {
    if (!row.name.starts_with("kernel_") || row.name.find("product") != std::string::npos) continue;
    const std::string kernel = row.name.substr(7, row.name.rfind('_') - 7),
                      type = row.name.substr(row.name.rfind('_') + 1);
    const auto t = predicted(kernel, type);
    printf("%-24s measured %7.1f predicted %7.1f ratio %.2f  mem %.1f l2 %.1f l1 %.1f lat %.1f issue %.1f\n",
           row.name.c_str(), row.us, t.us, t.us / row.us, t.memory_us, t.l2_us, t.l1_us, t.latency_us,
           t.issue_us);
  }
}

}  // namespace
}  // namespace braid::test
