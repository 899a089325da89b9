# ng_add_plugin(<kind> <name> <source>... [LEVELS <source>...] [COMPONENT <component>]): a plugin
# library ng_<kind>_<name>.so.
#
# The name is the one that the config uses. Only the descriptor `ng_plugin` is exported. Sources
# behind LEVELS are compiled once for each instruction set level (ng/level.h). Inside ng's own tree
# (NG_PLUGIN_OUTPUT_DIRECTORY set) the plugin is also installed, with COMPONENT or else with core.
function(ng_add_plugin kind name)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "COMPONENT" "LEVELS")
  set(target ng_${kind}_${name})
  add_library(${target} MODULE ${arg_UNPARSED_ARGUMENTS})
  target_link_libraries(${target} PRIVATE ng::ng_core)
  target_compile_features(${target} PRIVATE cxx_std_20)
  target_compile_options(${target} PRIVATE -ffp-contract=off)
  # Hidden visibility alone would leak the standard library's inline variables.
  set(map ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/ng-plugin.map)
  target_link_options(${target} PRIVATE -Wl,--version-script=${map})
  set_target_properties(
    ${target}
    PROPERTIES LINK_DEPENDS ${map}
               PREFIX ""
               SUFFIX ".so"
               CXX_VISIBILITY_PRESET hidden
               VISIBILITY_INLINES_HIDDEN ON)
  if(arg_LEVELS)
    ng_add_levels(${target} ${arg_LEVELS})
  endif()
  if(NG_PLUGIN_OUTPUT_DIRECTORY)
    set_target_properties(
      ${target} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${NG_PLUGIN_OUTPUT_DIRECTORY}
                           INSTALL_RPATH "$ORIGIN/../..")
    set(component core)
    if(arg_COMPONENT)
      set(component ${arg_COMPONENT})
    endif()
    install(TARGETS ${target} LIBRARY DESTINATION ${NG_PLUGIN_INSTALL_DIRECTORY} COMPONENT ${component})
  endif()
endfunction()

set(NG_LEVELS all CACHE STRING
    "Instruction set levels (ng/isa.h) to build: all, native (this machine's), or a list: scalar;avx2")

# ng_find_levels(<levels> <mask>): the levels that NG_LEVELS asks for, and the number that tells them
# to the compiler, NG_BUILT_LEVELS: a bit for each. A level brings the one that it extends.
function(ng_find_levels levels_out mask_out)
  set(names scalar avx2 avx_vnni avx512 avx512_vnni avx512_bf16)
  # Of each level the one that it extends, and what Linux calls the instructions that it adds.
  set(of_scalar scalar)
  set(of_avx2 scalar avx2 fma)
  set(of_avx_vnni avx2 avx_vnni)
  set(of_avx512 avx2 avx512f avx512bw avx512dq avx512vl)
  set(of_avx512_vnni avx512 avx512_vnni)
  set(of_avx512_bf16 avx512_vnni avx512_bf16)

  set(levels scalar)
  if(NG_LEVELS STREQUAL "all")
    set(levels ${names})
  elseif(NG_LEVELS STREQUAL "native")
    file(STRINGS /proc/cpuinfo flags REGEX "^flags" LIMIT_COUNT 1)
    string(REPLACE " " ";" flags "${flags}")
    foreach(level ${names})
      list(POP_FRONT of_${level} base)
      list(REMOVE_ITEM of_${level} ${flags})
      if(base IN_LIST levels AND "${of_${level}}" STREQUAL "")
        list(APPEND levels ${level})
      endif()
    endforeach()
  else()
    foreach(level ${NG_LEVELS})
      if(NOT level IN_LIST names)
        message(FATAL_ERROR "NG_LEVELS: ${level} is no level; all, native, or a list of ${names}")
      endif()
      while(NOT level IN_LIST levels)
        list(APPEND levels ${level})
        list(GET of_${level} 0 level)
      endwhile()
    endforeach()
  endif()
  list(REMOVE_DUPLICATES levels)

  set(mask 0)
  foreach(level ${levels})
    list(FIND names ${level} bit)
    math(EXPR mask "${mask} | (1 << ${bit})")
  endforeach()
  set(${levels_out} ${levels} PARENT_SCOPE)
  set(${mask_out} ${mask} PARENT_SCOPE)
endfunction()

# ng_add_levels(<target> <source>...): adds the sources to the target, once for each level of ng/isa.h.
# NG_LEVELS leaves levels out. A level's objects are a target of their own, <target>_<level>; the
# target's property NG_LEVEL_OBJECTS lists them.
function(ng_add_levels target)
  ng_find_levels(levels mask)
  target_compile_definitions(${target} PRIVATE NG_BUILT_LEVELS=${mask})
  foreach(level ${levels})
    set(objects ${target}_${level})
    string(TOUPPER NG_LEVEL_${level} definition)
    add_library(${objects} OBJECT ${ARGN})
    target_link_libraries(${objects} PRIVATE ng::ng_core)
    target_compile_definitions(
      ${objects} PRIVATE ${definition} $<TARGET_PROPERTY:${target},COMPILE_DEFINITIONS>)
    target_include_directories(${objects} PRIVATE $<TARGET_PROPERTY:${target},INCLUDE_DIRECTORIES>)
    target_compile_options(
      ${objects} PRIVATE $<TARGET_PROPERTY:${target},COMPILE_OPTIONS> -ffp-contract=off)
    set_target_properties(${objects} PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden
                                                VISIBILITY_INLINES_HIDDEN ON)
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:${objects}>)
    set_property(TARGET ${target} APPEND PROPERTY NG_LEVEL_OBJECTS ${objects})
  endforeach()
endfunction()
