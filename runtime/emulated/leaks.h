// Resources that a program has not released at its end: a caller that opens programs again and again would
// run out of them.
#pragma once

namespace braid::emulated {

// Reports memory that is not freed, and streams, events and graphs that are not destroyed. Call when no
// program is open.
void report_leaks();

// Executable graphs that there are.
int live_graphs();

}  // namespace braid::emulated

// For programs that load the library by name.
extern "C" void braid_emulated_report_leaks();
