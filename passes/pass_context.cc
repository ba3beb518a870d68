#include "passes/pass_context.h"

namespace braid::passes {

using namespace analysis;

PassContext::PassContext() : costs(cost_model_for(kDefaultMachine)) {}

std::shared_ptr<const OrderAnalysis> analyse(const ir::Schedule& schedule, PassContext& context,
                                             const ProblemOptions& options) {
  if (!context.analysis || !context.analysis->describes(schedule, *context.costs, options))
    context.analysis = std::make_shared<const OrderAnalysis>(schedule, context.costs, options);
  return context.analysis;
}

}  // namespace braid::passes
