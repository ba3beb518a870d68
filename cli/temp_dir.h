#pragma once

#include "codegen/temp_dir.h"

namespace braid::cli {

using codegen::TempDir;

}  // namespace braid::cli
