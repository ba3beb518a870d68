#include "passes/pass_context.h"

namespace braid::passes {

PassContext::PassContext() : costs(cost_model_for(kDefaultMachine)) {}

}  // namespace braid::passes
