// Every form of every collective (tests/support/collective_forms.h), through the default passes, and those in place
// as written as well.
#include "codegen/compile.h"
#include "tests/codegen_cuda/cases.h"
#include "tests/support/collective_forms.h"

namespace braid::test {

void add_form_cases(std::vector<Case>& out) {
  for (int ranks : kFormRanks) {
    const std::vector<CollectiveCase> cases = collective_cases(ranks);
    for (const CollectiveCase& c : cases) {
      for (bool optimised : {true, false}) {
        if (!optimised && !c.in_place) continue;
        out.push_back({optimised ? c.name : c.name + "_as_written",
                       [schedule = c.schedule, optimised] {
                         ir::Schedule s = schedule;
                         CompileOptions options;
                         options.target = Target::cuda;
                         if (!optimised) options.passes = "plan_memory";
                         optimise(s, options);
                         return s;
                       },
                       {},
                       "forms"});
      }
    }
  }
}

}  // namespace braid::test
