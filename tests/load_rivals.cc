// Loads the rivals into this program, so that its tests name them like passes of the compiler.
#include "passes/pass.h"
#include "tests/paths.h"

namespace braid::test {
namespace {

const bool kLoaded = (passes::load_plugin(paths::binary("lib/libbraid_rivals.so")), true);

}  // namespace
}  // namespace braid::test
