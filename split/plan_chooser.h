// The choice of plans for all programs of a network on one mesh, under an assumption about communication. How
// it is made differs for one program (one_program.h) and for several that share weights (together.h). The
// search over assumptions (plan_search.h) is the same.
#pragma once

#include <memory>
#include <vector>

#include "split/candidates.h"
#include "split/plan_space.h"
#include "split/shared_tensors.h"
#include "split/split_choice.h"

namespace braid::split {

// An assumption about how much communication will be hidden. Each has a cheapest plan.
struct Variant {
  const char* name;
  int communication;  // SplitCostOptions
};
// In the order in which their plans are listed.
inline constexpr Variant kVariants[] = {{"cheapest", 1000},
                                        {"fewer collectives", 2000},
                                        {"communication half hidden", 500},
                                        {"communication hidden", 100}};
inline constexpr const Variant &kCheapest = kVariants[0], &kFewer = kVariants[1], &kHalfHidden = kVariants[2],
                               &kHidden = kVariants[3];

// A plan for each program.
struct ChosenPlans {
  IdVector<ProgramId, SpaceSolution> programs;  // empty: none was found
  Cost bound = 0;                               // plans of all programs cost no less together
  bool proved = false;                          // they cost exactly the bound
};

// The programs on a mesh. Their problems are made.
using ProgramSpaces = IdVector<ProgramId, std::unique_ptr<PlanSpace>>;

class PlanChooser {
 public:
  virtual ~PlanChooser() = default;

  // Chooses for kCheapest, before anything else is asked. If it finds none, it tells the reason in `facts`:
  // the least bytes or an obstacle.
  virtual ChosenPlans cheapest(FoundPlans& facts) = 0;
  // Chooses for another variant, or without parts that are padded. Several threads may ask.
  virtual ChosenPlans choose(const Variant& variant) const = 0;
  virtual ChosenPlans without_padding(const Variant& variant) const = 0;

  // Whether other plans than these, the cheapest, could take less if communication were hidden.
  virtual bool gains_by_hiding(const ChosenPlans& cheapest) const = 0;
  // The time of the plan that a program would have without the others; 0 if it is the only one.
  virtual analysis::Time alone(ProgramId program) const = 0;
  // The changes of the machine that change the cheapest plan. Only for one program.
  virtual PlanFlips flips(const FoundPlan& cheapest) const = 0;
};

}  // namespace braid::split
