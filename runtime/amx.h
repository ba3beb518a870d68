// Matrix units of a processor (AMX): tiles of up to 16 rows of 64 bytes. Private to the runtime library.
#pragma once

namespace braid::rt {

// Whether processor and operating system have them, which asks the system for their use by this process, once.
bool has_amx_int8();
bool has_amx_bf16();

}  // namespace braid::rt
