# Runs COMMAND, whose rank 2 kills itself: mpirun must end within the limit, with an exit code that is not 0, and say which
# rank it was.
execute_process(COMMAND ${COMMAND} TIMEOUT 60 RESULT_VARIABLE code OUTPUT_VARIABLE text ERROR_VARIABLE text)
message("${text}")
if(NOT code MATCHES "^[0-9]+$")
  message(FATAL_ERROR "the job did not end: ${code}")
endif()
if(code EQUAL 0)
  message(FATAL_ERROR "the job ended as if nothing had happened")
endif()
if(NOT text MATCHES "rank 2 begins .*signal 9")
  message(FATAL_ERROR "the job ended with code ${code} before rank 2 was killed")
endif()
