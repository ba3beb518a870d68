// The unit-step table with the rule of the simulator before 2024: StepTableOptions::peek.
#pragma once

#include "pipeline/step_table.h"

namespace braid::pipeline {

StepTable step_table_peek(const Schedule& schedule);

}  // namespace braid::pipeline
