// Given to the host compiler with -include: a compiled program whose exponentials are wrong.
#include "runtime/vec_math.h"

namespace braid::rt {
inline float wrong_exp(float x) { return vexp(x) + 0.125f; }
}  // namespace braid::rt

#define vexp wrong_exp
