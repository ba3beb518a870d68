"""Outputs in the form of compute-sanitizer and ncu, made up: of no machine."""

# Frames on one line, as recent versions print them, and on two.
LIBRARY_CALLS_FAIL = """BEGIN gemm_f32
========= COMPUTE-SANITIZER
========= Program hit cudaErrorInvalidDeviceFunction (error 98) due to "invalid device function" on CUDA API call to cudaFuncGetAttributes.
=========     Saved host backtrace up to driver entry point at error
=========         Host Frame: cudaFuncGetAttributes [0x1f2a3] in libcudart.so.13
=========         Host Frame: ncclInitKernelsForDevice in enqueue.cc:77 [0x5ab10] in libnccl.so.2
=========         Host Frame: ncclCommInitRank [0x6ab10] in libnccl.so.2
=========         Host Frame: main in gpu_check.cc:230 [0x7c00] in gpu_check
=========
========= Program hit CUDA_ERROR_NOT_PERMITTED (error 800) due to "operation not permitted" on CUDA API call to cuMemCreate.
=========     Saved host backtrace up to driver entry point at error
=========     Host Frame: [0x2f52fb]
=========                in /lib/x86_64-linux-gnu/libcuda.so.1
=========     Host Frame:ncclMemAlloc [0x5ab77]
=========                in /opt/nccl/lib/libnccl.so.2
=========     Host Frame:main in gpu_check.cc:230 [0x7c00]
=========                in /opt/bundle/gpu_check
=========
END gemm_f32 pass
========= ERROR SUMMARY: 2 errors
"""

OUR_CALL_FAILS = """========= COMPUTE-SANITIZER
========= Program hit cudaErrorInvalidValue (error 1) due to "invalid argument" on CUDA API call to cudaFuncGetAttributes.
=========     Saved host backtrace up to driver entry point at error
=========         Host Frame: cudaFuncGetAttributes [0x1f2a3] in libcudart.so.13
=========         Host Frame: braid::rt::cuda::create [0x5ab10] in libbraid_cuda_runtime.so
=========         Host Frame: ncclCommInitRank [0x6ab10] in libnccl.so.2
=========
========= ERROR SUMMARY: 1 error
"""

MEMORY_ERROR = LIBRARY_CALLS_FAIL.replace("2 errors", "3 errors")
MANY_ERRORS = """========= ERROR SUMMARY: 1100 errors
========= ERROR SUMMARY: 100 errors were not printed. Use --print-limit option to adjust the number of printed errors
"""
NO_ERRORS = "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n"
NO_HAZARDS = (
    "========= COMPUTE-SANITIZER\n========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)\n"
)
HAZARDS = NO_HAZARDS + "========= RACECHECK SUMMARY: 3 hazards displayed (2 errors, 1 warning)\n"

STALL = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
COUNTED = "\n".join(
    [
        "==PROF== Connected to process 17",
        '==PROF== Profiling "softmax_kernel": 0%....100% - 4 passes',
        '"ID","Process ID","Kernel Name","Context","Stream","Block Size","Grid Size","CC",'
        '"dram__bytes_read.sum","dram__bytes_write.sum","gpu__time_duration.sum",'
        '"l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum","l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",'
        f'"{STALL.format("long_scoreboard")}","{STALL.format("barrier")}"',
        '"","","","","","","","","byte","byte","ns","","","inst","inst"',
        '"0","17","void softmax_kernel<int>(const __half *, __half *, int)","1","7","(32, 8, 1)","(1056, 1, 1)","9.0",'
        '"134,217,728","130000000","68,480","262,144","4,194,304","7.25","0.5"',
        '"1","17","copy_kernel(int)","1","7","(32, 8, 1)","(1, 1, 1)","9.0","64","n/a","1,000","0","0","n/a","n/a"',
    ]
)
NOT_PERMITTED = """==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters on the target device 0.
"""
