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
foreach(part ir analysis passes solver split pipeline frontend codegen driver explain runtime)
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/${part}" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/braid"
          FILES_MATCHING PATTERN "*.h" PATTERN "*.inc" PATTERN "passes/rivals" EXCLUDE)
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

# cpack -G DEB: program, runtime and development files in one package. Programs are compiled where they are used, so what they
# are built with is needed as well.
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)  # what is built is packed: a test does so, which must not build
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME braid)
set(CPACK_PACKAGE_VENDOR "Braid")
set(CPACK_PACKAGE_CONTACT "the Braid project <braid@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION devel)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS "${CMAKE_LIBRARY_OUTPUT_DIRECTORY}")
set(CPACK_DEBIAN_PACKAGE_DEPENDS "g++")
if(BRAID_HAS_ONEDNN)
  string(APPEND CPACK_DEBIAN_PACKAGE_DEPENDS ", libdnnl-dev")
endif()
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "cmake, libfmt-dev, nlohmann-json3-dev, libopenmpi-dev")
include(CPack)
