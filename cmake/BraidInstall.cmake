# `cmake --install` gives bin/braid, lib/libbraid.so, lib/libbraid_runtime.a, headers under include/braid (the same
# relative paths as in the source tree: #include "runtime/...") and the package that find_package(braid) finds.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(braid_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/braid")

install(TARGETS braid_compiler braid_runtime braid_emulated_device EXPORT braidTargets)
if(TARGET braid_mpi)
  install(TARGETS braid_mpi LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
endif()
if(TARGET braid)
  file(RELATIVE_PATH braid_bin_to_lib "${CMAKE_INSTALL_FULL_BINDIR}" "${CMAKE_INSTALL_FULL_LIBDIR}")
  set_target_properties(braid PROPERTIES INSTALL_RPATH "$ORIGIN/${braid_bin_to_lib}")
  install(TARGETS braid EXPORT braidTargets)
endif()
foreach(part ir analysis passes pipeline frontend codegen driver explain runtime)
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/${part}" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/braid"
          FILES_MATCHING PATTERN "*.h" PATTERN "*.inc")
endforeach()
# What CUDA programs are linked with: built with them, as it depends on the toolkit.
install(DIRECTORY runtime/cuda DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/braid/runtime" FILES_MATCHING PATTERN "*.cc" PATTERN "*.cu")
install(FILES runtime/cuda_toolkit.cmake runtime/cuda_standalone.cmake DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/braid/runtime")
# Copied into folders that build alone.
install(DIRECTORY runtime/emulated DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/braid/runtime" FILES_MATCHING PATTERN "*.cc")

install(FILES "${CMAKE_ARCHIVE_OUTPUT_DIRECTORY}/libbraid_runtime.link" DESTINATION "${CMAKE_INSTALL_LIBDIR}")

install(EXPORT braidTargets NAMESPACE braid:: DESTINATION "${braid_package_dir}")
configure_package_config_file(cmake/braidConfig.cmake.in "${PROJECT_BINARY_DIR}/braidConfig.cmake"
                              INSTALL_DESTINATION "${braid_package_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/braidConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/braidConfig.cmake" "${PROJECT_BINARY_DIR}/braidConfigVersion.cmake"
              cmake/BraidAddModel.cmake cmake/FindOneDnn.cmake
        DESTINATION "${braid_package_dir}")
install(FILES LICENSE DESTINATION "${CMAKE_INSTALL_DOCDIR}")
