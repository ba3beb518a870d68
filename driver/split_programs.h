// The programs whose split is chosen: the one that is compiled, and those of SplitOptions::with, which share
// its weights. One program is the plain case.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "driver/compile_options.h"
#include "frontend/import.h"
#include "frontend/sharding/configuration.h"
#include "split/candidates.h"
#include "split/mesh.h"
#include "split/shared_tensors.h"

namespace braid {

class SplitPrograms {
 public:
  struct Program {
    std::string file;
    std::shared_ptr<frontend::PlainModel> model;
    std::vector<StepSizes> sizes;           // at least one
    std::vector<split::PricePoint> points;  // by size
    bool aliases = false;
    std::vector<split::ProductJoin> joins = {};
  };

  // `options` must outlive this. Nothing is read yet.
  explicit SplitPrograms(const CompileOptions& options);

  // Reads the models, annotations and kept lines that a search needs. UserErrors of the import.
  void prepare();

  const std::deque<Program>& all() const { return programs_; }
  bool several() const { return programs_.size() > 1; }
  const CompileOptions& options() const { return options_; }
  // The options with which candidates are compiled.
  const CompileOptions& quiet() const { return quiet_; }
  // Bytes of a device; absent: no limit.
  std::optional<std::int64_t> limit() const { return limit_; }
  const std::string& keep() const { return keep_; }  // text of --keep
  const frontend::sharding::DeviceConfiguration* annotated() const { return annotated_.get(); }

  // The plain graph of the compiled program; valid during the call.
  void with_graph(const std::function<void(const split::Graph&)>& use);
  // The costs of its first sizes.
  const std::shared_ptr<const analysis::CostModel>& costs() const { return programs_[0].points[0].costs; }
  // The options of a search for its plans; `memory` is absent.
  split::SearchOptions search_options(bool obey) const;
  // Finds plans of all programs together on each mesh. `options`: of the compiled program; the others have
  // their own costs, steps and aliases, the same other options, and no lines that are kept.
  std::vector<split::FoundPlans> find_plans(const std::vector<split::Mesh>& meshes,
                                            const split::SearchOptions& options);
  // Returns a lower bound on the time of all steps of all programs on so many ranks.
  analysis::Time least_time(int ranks);

  // The tensors that several programs share; only after find_plans.
  const split::SharedTensors& shared() const { return *shared_; }

 private:
  void add(const std::string& file, const frontend::ImportOptions& import, std::vector<StepSizes> sizes,
           const std::shared_ptr<const analysis::CostModel>& costs);
  split::SearchOptions options_of(const Program& program, split::SearchOptions common) const;

  const CompileOptions& options_;
  CompileOptions quiet_;
  std::deque<Program> programs_;  // the compiled one first
  std::optional<std::int64_t> limit_;
  std::string keep_;
  std::shared_ptr<const frontend::sharding::DeviceConfiguration> annotated_;
  std::optional<split::SharedTensors> shared_;
};

}  // namespace braid
