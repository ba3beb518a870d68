# What the wheel holds beside Python files: the component "wheel" of the installation, which nothing else installs.
#
#   braid/_braid*.so        run path $ORIGIN/lib
#   braid/lib/              the compiler, what programs are linked with, the emulated device, the MPI engine, and the libraries that these need and
#                           that a system with g++ may lack (protobuf, fmt, oneDNN and its), each under its own name, with licences
#   braid/include/braid/    the headers of generated programs
set(wheel COMPONENT wheel EXCLUDE_FROM_ALL)
add_custom_target(wheel DEPENDS braid_python braid_python_stub braid_compiler braid_runtime braid_emulated_device)
install(FILES "${BRAID_PYTHON_DIR}/braid/_braid.pyi" DESTINATION braid ${wheel})
install(TARGETS braid_python LIBRARY DESTINATION braid ${wheel})
install(TARGETS braid_runtime ARCHIVE DESTINATION braid/lib ${wheel})
install(TARGETS braid_emulated_device LIBRARY DESTINATION braid/lib ${wheel})
if(TARGET braid_mpi)
  add_dependencies(wheel braid_mpi)
  install(TARGETS braid_mpi LIBRARY DESTINATION braid/lib ${wheel})
endif()
install(DIRECTORY "${PROJECT_SOURCE_DIR}/runtime" DESTINATION braid/include/braid ${wheel}
        FILES_MATCHING PATTERN "*.h" PATTERN "*.inc" PATTERN "*.cc" PATTERN "*.cu" PATTERN "*.cmake"
        PATTERN "comm/*.cc" EXCLUDE)

set(braid_wheel_libraries "")
if(BRAID_HAS_ONEDNN)
  get_target_property(braid_wheel_libraries DNNL::dnnl IMPORTED_LOCATION)
endif()
install(CODE "
  set(compiler \"$<TARGET_FILE:braid_compiler>\")
  set(compiler_name \"$<TARGET_SONAME_FILE_NAME:braid_compiler>\")
  set(onednn \"${braid_wheel_libraries}\")
  set(strip \"${CMAKE_STRIP}\")
  set(folder \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/braid/lib\")
  include(\"${CMAKE_CURRENT_SOURCE_DIR}/wheel_libraries.cmake\")" ${wheel})
