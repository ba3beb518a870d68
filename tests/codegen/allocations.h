// Counts what this test program takes from the heap, generated libraries and the runtime included, oneDNN
// left out. Nothing is counted under a sanitizer, which has an allocator of its own.
#pragma once

namespace braid::test {

// Count the allocations of all threads. Only one count at a time.
void begin_counting_allocations();
long end_counting_allocations();

// Returns the number of allocations of this thread since it began.
long allocations_of_this_thread();

}  // namespace braid::test
