// Matrix units of a processor (AMX): tiles of up to 16 rows of 64 bytes. Private to the runtime library.
#pragma once

namespace braid::rt {

// Returns whether the processor and the operating system support them. The first call asks the system to let
// this process use them.
bool has_amx_int8();
bool has_amx_bf16();

}  // namespace braid::rt
