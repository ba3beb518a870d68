// The communication buffer table of braid explain: where each operand of each collective lies, and why copied
// ones are copied.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "ir/schedule.h"

namespace braid::cli {

std::string comm_buffer_text(const ir::Schedule& schedule);  // empty if there are no collectives
nlohmann::ordered_json comm_buffer_json(const ir::Schedule& schedule);

}  // namespace braid::cli
