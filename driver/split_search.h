// The search for a split: on which meshes and within which limits of memory plans are looked for, and which
// of them are tried.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "driver/smaller_limits.h"
#include "driver/split_programs.h"
#include "driver/split_report.h"
#include "driver/split_trials.h"

namespace braid {

class SplitSearch {
 public:
  // Both must outlive this. `any`: the first plan that fits ends the search.
  SplitSearch(SplitPrograms& programs, SplitReport& report, bool any = false)
      : programs_(programs), report_(report), trials_(programs, report), any_(any) {}

  // Tries plans of all numbers of ranks and meshes that are asked for. Throws the UserErrors of the import;
  // BR0484 for lines that are kept for other ranks; BR0487 if the ranks that are asked for do not divide the
  // model.
  void run();
  // Tries the plan of SplitOptions::plan_file.
  void use_plan();

  SplitTrials& trials() { return trials_; }
  bool over_limit() const { return over_limit_ || trials_.over_limit(); }  // whether it refused a plan
  const std::vector<std::string>& too_small() const { return too_small_; }

 private:
  using Mesh = split::Mesh;
  // A search of a mesh within a limit of memory.
  struct Round {
    LimitOutcome outcome;
    std::vector<split::Assignment> priced;  // FoundPlans
  };

  void try_kept(const std::optional<Mesh>& only, bool obey);
  void try_lines();
  void on_several_axes(int ranks);
  void try_mesh(const Mesh& mesh, bool obey);
  void try_meshes(const std::vector<Mesh>& meshes, bool obey);
  void try_smaller(const Mesh& mesh, bool obey, Round last);
  std::vector<Round> try_within(const std::vector<Mesh>& meshes, bool obey, std::optional<std::int64_t> limit,
                                int number, std::vector<split::Assignment> priced = {});
  void add_plans(const FoundSplit::Search& search, split::FoundPlans found, std::vector<FoundSplit>& all,
                 int round);
  bool add_plan(const FoundSplit::Search& search, split::FoundPlan plan, std::vector<FoundSplit>& all,
                int round);
  void allow(const SplitMesh& mesh);
  void hold_to(const std::vector<Mesh>& meshes, const std::vector<split::FoundPlans>& plans);
  bool done() { return any_ && trials_.best(); }

  SplitPrograms& programs_;
  SplitReport& report_;
  SplitTrials trials_;
  bool any_;
  bool again_ = false;                  // whether a mesh is searched that was searched with obey
  bool over_limit_ = false;             // whether some mesh has no plan that keeps the limit
  std::vector<std::string> too_small_;  // bytes that a mesh needs on which no plan keeps the limit
  split::KnownBounds known_;            // SearchOptions
  bool bounded_ = false;
  int found_ = 0;
};

}  // namespace braid
