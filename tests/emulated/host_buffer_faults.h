// Entry points of host_buffer_faults.cu: host code and pinned memory that copies use.
#pragma once

enum class HostBufferFault {
  kNone,
  kWrittenDuringUpload,
  kReadDuringDownload,
  kWrittenByCopying,  // memcpy instead of a store
  kFreedDuringUpload,
  kFreedBeforeReplay,
  kReadAfterAnotherStream,  // was waited for
  kPolled,                  // by atomic loads: right
  kReadAfterQuery,          // that said so: right
  kReadAfterEvent,          // right
  kPageable,                // right: the call returns when the memory may be used again
  kKernelWrites,            // pinned memory that the host reads without waiting
};
// Null, or the text of the first error.
const char* use_host_buffers(HostBufferFault fault);
