# Debian packages: `cpack --config build/CPackConfig.cmake` writes them into the current folder. Each
# component is a package:
#   core         libng-core   the library and the plugins
#   programs     ng           programs, man pages, completion, configs and the demo
#   development  libng-dev    headers, CMake and pkg-config files, the checks of ng-conform
#   python       python3-ng   the Python package, where it is built
#   mpi          ng-mpi       the fabric mpi, where it is built: nothing else needs OpenMPI
# The names of all files begin with ng, so that `apt install ./ng*.deb` finds what they need in each other.
# Also the target `uninstall`, for what `cmake --install` has put somewhere.

set(NG_COMPONENTS core programs development)
set(NG_PACKAGE_core libng-core)
set(NG_PACKAGE_programs ng)
set(NG_PACKAGE_development libng-dev)
if(TARGET ng_python)
  list(APPEND NG_COMPONENTS python)
  set(NG_PACKAGE_python python3-ng)
endif()

if(TARGET ng_fabric_mpi)
  list(APPEND NG_COMPONENTS mpi)
  set(NG_PACKAGE_mpi ng-mpi)
endif()

# Who answers for the packages: whoever makes some for others gives a name and an address. The default is
# nobody's, since hosts below .invalid never exist (RFC 2606).
set(NG_PACKAGE_CONTACT "ng maintainers <maintainers@ng.invalid>" CACHE STRING
    "Maintainer of the Debian packages: NAME <ADDRESS>")
set(CPACK_PACKAGE_CONTACT "${NG_PACKAGE_CONTACT}")

# Debian wants license and changelog beside each package; an install has them under these names, too.
set(debian ${CMAKE_CURRENT_LIST_DIR}/debian)
set(made ${PROJECT_BINARY_DIR}/debian)
string(TIMESTAMP NG_PACKAGE_DATE "%a, %d %b %Y %H:%M:%S +0000" UTC) # SOURCE_DATE_EPOCH, where it is set
configure_file(${debian}/copyright.in ${made}/copyright @ONLY)
configure_file(${debian}/changelog.in ${made}/changelog @ONLY)
execute_process(COMMAND gzip -9nf ${made}/changelog COMMAND_ERROR_IS_FATAL ANY)
foreach(component ${NG_COMPONENTS})
  install(FILES ${made}/copyright ${made}/changelog.gz
          DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${NG_PACKAGE_${component}} COMPONENT ${component})
endforeach()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME ng)
set(CPACK_PACKAGE_VENDOR ng)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL ${NG_COMPONENTS})
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE
                                                WORLD_READ WORLD_EXECUTE)
execute_process(COMMAND dpkg --print-architecture OUTPUT_VARIABLE architecture
                OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
foreach(component ${NG_COMPONENTS})
  string(TOUPPER ${component} name)
  set(CPACK_DEBIAN_${name}_PACKAGE_NAME ${NG_PACKAGE_${component}})
  string(REGEX REPLACE "^ng-ng($|-)" "ng\\1" file ng-${NG_PACKAGE_${component}})
  set(CPACK_DEBIAN_${name}_FILE_NAME ${file}_${PROJECT_VERSION}_${architecture}.deb)
endforeach()

# What the libraries of Debian need is found by dpkg-shlibdeps; what one package needs of another is
# of the same version, because the core's interface to its programs has no promise yet.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_LIBRARY_OUTPUT_DIRECTORY})
set(NG_SAME "(= ${PROJECT_VERSION})")

set(CPACK_COMPONENT_CORE_DESCRIPTION
    "engine that runs decoder-only transformers with a KV cache
ng runs language models (safetensors, GGUF) on the CPU, as a pipeline whose
parts are plugins: attention, cache, sampler, probes.
.
This package has the library and the plugins.")
set(CPACK_DEBIAN_CORE_PACKAGE_SECTION libs)
# What other packages that are built with it need of it, and that the linker hears of it. (CPack can make
# the first itself, but would have each plugin in it.)
get_target_property(version ng_core SOVERSION)
file(WRITE ${made}/shlibs "libng_core ${version} libng-core ${NG_SAME}\n")
set(CPACK_DEBIAN_CORE_PACKAGE_CONTROL_EXTRA ${debian}/triggers ${made}/shlibs)

set(CPACK_COMPONENT_PROGRAMS_DESCRIPTION
    "run, measure and compare decoder-only transformers
ng-run answers prompts and shows what happens inside a model; ng-serve answers
clients of OpenAI's API; ng-bench, ng-plan, ng-eval and ng-diff measure and
compare configs; ng-fetch brings models from a hub; ng-tokenize shows token
ids; ng-pack makes starts quick; ng-conform checks plugins.
.
A small model to try it with is in /usr/share/ng.")
set(CPACK_DEBIAN_PROGRAMS_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PROGRAMS_PACKAGE_DEPENDS "libng-core ${NG_SAME}")

set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION
    "headers to write plugins for ng and to embed its engine
With the CMake function ng_add_plugin, a pkg-config file, and the checks that
a plugin must pass as a library.")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "libng-core ${NG_SAME}, libabsl-dev")

set(CPACK_COMPONENT_PYTHON_DESCRIPTION
    "decoder-only transformers with a KV cache in Python
The module ng gives logits, attention and the points inside a model as NumPy
arrays, and runs probes and sampler stages that are written in Python.")
set(CPACK_DEBIAN_PYTHON_PACKAGE_SECTION python)
# A module is for the Python that it was built with.
if(TARGET ng_python)
  get_directory_property(minor DIRECTORY ${PROJECT_SOURCE_DIR}/apps/python DEFINITION Python_VERSION_MINOR)
  math(EXPR next "${minor} + 1")
  set(CPACK_DEBIAN_PYTHON_PACKAGE_DEPENDS
      "libng-core ${NG_SAME}, python3 (>= 3.${minor}), python3 (<< 3.${next}), python3-numpy")
endif()
set(CPACK_DEBIAN_PYTHON_PACKAGE_CONTROL_EXTRA ${debian}/postinst ${debian}/prerm)

set(CPACK_COMPONENT_MPI_DESCRIPTION
    "runs of ng on several machines by MPI
The fabric plugin mpi: processes that mpirun starts compute one model together
and give the same bits as one.")
set(CPACK_DEBIAN_MPI_PACKAGE_SECTION science)
set(CPACK_DEBIAN_MPI_PACKAGE_DEPENDS "libng-core ${NG_SAME}, openmpi-bin")

include(CPack)

add_custom_target(
  uninstall
  COMMAND ${CMAKE_COMMAND} -DMANIFEST=${PROJECT_BINARY_DIR}/install_manifest.txt -P
          ${CMAKE_CURRENT_LIST_DIR}/uninstall.cmake
  COMMENT "Removing what the last install has put there"
  VERBATIM)
