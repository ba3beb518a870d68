// What braid explain says about communication buffers: per collective and operand, where it lies, and why
// what is copied is copied.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "ir/schedule.h"

namespace braid::cli {

std::string comm_buffer_text(const ir::Schedule& schedule);  // empty where nothing communicates
nlohmann::ordered_json comm_buffer_json(const ir::Schedule& schedule);

}  // namespace braid::cli
